"""What was fetched, and what could not be."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from aidiag.diagnose.report.model import Unknown


class FetchError(Exception):
    """Nothing could be fetched: why, and what to do."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.remedy = remedy


@dataclass(slots=True)
class Fetched:
    """Paths to diagnose: the folder with the answers of the tools, and logs where they lie. `gaps`: what is missing."""

    paths: list[Path] = field(default_factory=list)
    gaps: list[Unknown] = field(default_factory=list)

    def add(self, other: Fetched) -> None:
        """Join what was fetched elsewhere."""
        self.paths += other.paths
        self.gaps += other.gaps


def made(folder: Path) -> Path:
    """A folder that was made just now. Raises FetchError."""
    try:
        folder.mkdir()
    except OSError as error:
        raise FetchError(f"{folder} cannot be made: {error.strerror}", "name each job or pod once") from None
    return folder
