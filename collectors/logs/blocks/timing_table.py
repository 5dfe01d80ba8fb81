"""A table of steps with a heading, as programs write it to a CSV file or print it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from aidiag.collectors.logs.blocks.block import Outcome, TextBlock
from aidiag.collectors.logs.scanner import Line
from aidiag.collectors.observation import FieldValue

ROWS_LIMIT = 400
OTHERS_LIMIT = 40
"""So many lines that are no rows may come before and between them."""


class TimingTable(TextBlock):
    """`iteration, data time, step time, loss` and the rows below it: what each step waited for input, and what it took."""

    reopens: ClassVar[bool] = True

    _COLUMNS: ClassVar[dict[str, re.Pattern[str]]] = {
        "input": re.compile(r".{0,40}\b(?:data|load|loading|loader|fetch|input|io)\b.{0,40}\b(?:time|wait|s|ms|sec|seconds)\b.{0,8}"),
        "compute": re.compile(r".{0,40}\b(?:train|training|compute|forward|fwd|model|gpu)\b.{0,40}\b(?:time|s|ms|sec|seconds)\b.{0,8}"),
        "step": re.compile(r".{0,40}\b(?:step|iter|iteration|batch|total)\b.{0,20}\b(?:time|s|ms|sec|seconds)\b.{0,8}|time.{0,8}"),
    }  # fmt: skip

    def __init__(self, fields: Mapping[str, FieldValue], doubtful: bool) -> None:
        self.over = False
        self._columns: list[str] = []
        self._width = 0
        self._left = ROWS_LIMIT
        self._others = OTHERS_LIMIT

    def take(self, line: Line, start: int, content: str) -> list[Outcome]:
        """Read the heading or a row."""
        if self.over:
            return []
        cells = content[:2_000].split(",")
        if not self._columns:
            self._columns = [self._named(cell.rpartition(":")[2]) for cell in cells]
            self._width = len(cells)
            self.over = "input" not in self._columns or not {"compute", "step"} & set(self._columns)
            return []
        numbers = [_number(cell) for cell in cells]
        if len(cells) != self._width or None in numbers[1:]:
            self._others -= 1
            self.over = self._others < 0
            return []
        self._left -= 1
        self.over = self._left <= 0
        fields: dict[str, FieldValue] = {}
        for column, number in zip(self._columns, numbers, strict=True):
            if column and number is not None:
                fields.setdefault(column, number)
        return [Outcome(line, start, fields)]

    def close(self) -> list[Outcome]:
        """Rows are told one by one."""
        return []

    def _named(self, cell: str) -> str:
        name = re.sub(r"[_\-./()\[\]\s]+", " ", cell).strip().lower()
        if re.search(r"\d", name):
            return ""
        return next((what for what, names in self._COLUMNS.items() if names.fullmatch(name)), "")


def _number(cell: str) -> float | None:
    last = cell.split()[-1:] or [""]
    return float(last[0]) if re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?(?:e[+-]\d{1,3})?", last[0]) else None
