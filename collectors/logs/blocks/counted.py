"""The number that a command such as `grep -c` answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from aidiag.collectors.logs.blocks.block import Outcome, TextBlock
from aidiag.collectors.logs.scanner import Line
from aidiag.collectors.observation import FieldValue


class Counted(TextBlock):
    """The fields of the command, with the number on the next line as `count`."""

    reopens: ClassVar[bool] = True

    def __init__(self, fields: Mapping[str, FieldValue], doubtful: bool) -> None:
        self.over = False
        self._fields = dict(fields)
        self._began = False

    def take(self, line: Line, start: int, content: str) -> list[Outcome]:
        """Read the command, then its answer."""
        if not self._began:
            self._began = True
            return []
        self.over = True
        number = re.fullmatch(r"\s{0,8}(\d{1,9})\s{0,8}", content)
        return [Outcome(line, start, self._fields | {"count": int(number[1])})] if number else []

    def close(self) -> list[Outcome]:
        """Without an answer nothing is known."""
        return []
