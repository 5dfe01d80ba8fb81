"""What a block of several lines is, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from aidiag.collectors.logs.scanner import Line
from aidiag.collectors.observation import FieldValue


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a block told: the fields of an event, and the line and column of its evidence. `time` is what it states."""

    line: Line
    start: int
    fields: Mapping[str, FieldValue] = field(default_factory=dict)
    time: str = ""


class TextBlock(Protocol):
    """A block that is being read. `over` once the line just taken was its last."""

    over: bool
    reopens: ClassVar[bool] = True
    """Whether its first line, when it comes again, begins a new block."""
    takes_others: ClassVar[bool] = False
    """Whether lines with any labels belong to it where its first one has none."""
    part_of: ClassVar[tuple[str, ...]] = ()
    """The blocks in which its first line is an ordinary one and opens nothing."""

    def __init__(self, fields: Mapping[str, FieldValue], doubtful: bool) -> None:
        """Begin. `fields` are those of the opening message; `doubtful` when it cut another block of its kind short."""

    def take(self, line: Line, start: int, content: str) -> list[Outcome]:
        """Read a line, the opening one first. `start` is where its content begins."""

    def close(self) -> list[Outcome]:
        """What can be said when the stream ends here."""
