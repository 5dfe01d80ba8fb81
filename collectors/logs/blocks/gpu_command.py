"""A command that was given a limit, and that it met it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from aidiag.collectors.logs.blocks.block import Outcome, TextBlock
from aidiag.collectors.logs.scanner import Line
from aidiag.collectors.observation import FieldValue

MOST_LINES = 4


class GpuCommand(TextBlock):
    """`timeout 30 nvidia-smi; echo rc=$?`: told where the status is that of a command that did not end (124, 137)."""

    reopens: ClassVar[bool] = True

    _STATUS = re.compile(r"\s{0,8}(?:[a-z_ ]{1,16}[=:] ?)?(124|137)\s{0,4}|Terminated\s{0,4}|Killed\s{0,4}")

    def __init__(self, fields: Mapping[str, FieldValue], doubtful: bool) -> None:
        self.over = False
        self._lines = 0

    def take(self, line: Line, start: int, content: str) -> list[Outcome]:
        """Read the command, then its answer."""
        self._lines += 1
        if self._lines == 1:
            return []
        hung = self._STATUS.fullmatch(content)
        self.over = hung is not None or self._lines > MOST_LINES
        return [Outcome(line, start, {"error": "nvidia-smi did not come back"})] if hung else []

    def close(self) -> list[Outcome]:
        """Without a status nothing is known."""
        return []
