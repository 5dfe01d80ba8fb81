"""What one `aidiag run` is to do."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SIDECAR_COMMAND = (sys.executable, "-m", "aidiag", "sidecar")

_SECRET_NAME = re.compile(
    r"(?<![a-z])token(?![a-z])|secret|passw|api[-_]?key|credential|private[-_]?key", re.IGNORECASE
)
_SECRET_VALUE = re.compile(
    r"(?:hf|ghp|gho|ghs|glpat|sk|xox[bp])[-_][A-Za-z0-9_-]{16,}|AKIA[A-Z0-9]{12,}|://[^/@\s:]*:[^/@\s]+@"
)


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of `aidiag run`. `sidecar` is the command that the sidecar is started with, before its arguments."""

    out: Path | None = None
    report: Path | None = None
    port: int | None = None
    quiet: bool = False
    lang: str | None = None
    sidecar: tuple[str, ...] = SIDECAR_COMMAND


@dataclass(frozen=True, slots=True)
class Task:
    """One run: the command, where and for which job it is started. `environ` is the user's, as yet unchanged. With
    `made_id` the job's id is made of the start directory, so that another job may have it.
    """

    command: tuple[str, ...]
    job: str
    host: str
    directory: Path
    started: float
    run_pid: int
    environ: Mapping[str, str]
    settings: Settings = field(default_factory=Settings)
    rank: int | None = None
    made_id: bool = False


def without_secrets(command: Sequence[str]) -> tuple[str, ...]:
    """A command line in which the values of options such as --api-key, and words that look like access tokens, are
    replaced by an ellipsis.
    """
    shown: list[str] = []
    hide_next = False
    for word in command:
        name, equals, value = word.partition("=")
        if hide_next and not word.startswith("-"):
            shown.append("…")
        elif equals and value and _SECRET_NAME.search(name):
            shown.append(f"{name}=…")
        else:
            shown.append(_SECRET_VALUE.sub("…", word))
        hide_next = not equals and word.startswith("-") and bool(_SECRET_NAME.search(word))
    return tuple(shown)
