"""The table of nccl-tests (all_reduce_perf and its like), and whether the bandwidth collapses in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from aidiag.collectors.logs.blocks.block import Outcome, TextBlock
from aidiag.collectors.logs.scanner import Line
from aidiag.collectors.observation import FieldValue

SIZE_MIN = 1 << 20
COLLAPSE = 5.0
"""From 1 MiB on, more bytes are not slower a byte; a fifth of what fewer bytes reached is no noise of a sound network."""
MOST_OTHERS = 8


class BandwidthTable(TextBlock):
    """Opened by its heading. Told once, with the worst row, where the bus bandwidth of a larger size is a fraction of a smaller one's."""

    reopens: ClassVar[bool] = True

    _NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,9})?")

    def __init__(self, fields: Mapping[str, FieldValue], doubtful: bool) -> None:
        self.over = False
        self._width = 0
        self._columns: list[int] = []
        self._others = 0
        self._best = 0.0
        self._worst = 1.0 / COLLAPSE
        self._told: Outcome | None = None

    def take(self, line: Line, start: int, content: str) -> list[Outcome]:
        """Read the heading, or a row."""
        cells = content[:1000].lstrip("# ").split()
        if not self._width:
            self._width = len(cells)
            self._columns = [at for at, cell in enumerate(cells) if cell == "busbw"]
            return []
        if len(cells) != self._width or not cells[0].isdigit() or not cells[1].isdigit():
            self._others += 1
            self.over = self._others > MOST_OTHERS
            return self.close() if self.over else []
        speeds = [float(cells[at]) for at in self._columns if self._NUMBER.fullmatch(cells[at])]
        if speeds and len(cells[0]) <= 18 and int(cells[0]) >= SIZE_MIN:
            low = min(speeds)
            if self._best and low / self._best < self._worst:
                self._worst = low / self._best
                fields: dict[str, FieldValue] = {"size": int(cells[0]), "bandwidth": low, "best": self._best}
                self._told = Outcome(line, start, fields)
            self._best = max(self._best, *speeds)
        return []

    def close(self) -> list[Outcome]:
        """The worst row, where there is one."""
        told, self._told = self._told, None
        return [told] if told else []
