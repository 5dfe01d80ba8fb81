"""Horovod's list of missing ranks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from aidiag.collectors.logs.blocks.block import Outcome
from aidiag.collectors.logs.scanner import Line
from aidiag.collectors.observation import FieldValue


class MissingRanks:
    """Horovod's stall report: after `Missing ranks:` one line a rank, with the tensors it has not submitted."""

    reopens: ClassVar[bool] = True
    part_of: ClassVar[tuple[str, ...]] = ()

    _ENTRY = re.compile(r"(\d{1,7})!?: \[([^\],]{0,1000})")

    def __init__(self, fields: Mapping[str, FieldValue], doubtful: bool) -> None:
        self.over = False
        self._fields = dict(fields)
        self._ranks: list[str] = []
        self._opening: tuple[Line, int] | None = None

    def take(self, line: Line, start: int, content: str) -> list[Outcome]:
        """Read the report's text, its heading, a rank, or what comes after the list."""
        if self._opening is None:
            self._opening = (line, start)
        elif entry := self._ENTRY.match(content):
            self._ranks.append(entry[1])
            self._fields.setdefault("tensor", entry[2].strip())
        elif content.strip() and not content.startswith("Missing ranks"):
            self.over = True
            return self.close()
        return []

    def close(self) -> list[Outcome]:
        """The report with the ranks that it has named so far."""
        if self._opening is None:
            return []
        return [Outcome(*self._opening, self._fields | ({"ranks": " ".join(self._ranks)} if self._ranks else {}))]
