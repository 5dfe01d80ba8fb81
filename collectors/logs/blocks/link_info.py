"""The PCIe link of a GPU in `nvidia-smi -q`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from aidiag.collectors.logs.blocks.block import Outcome, TextBlock
from aidiag.collectors.logs.scanner import Line
from aidiag.collectors.observation import FieldValue

MOST_LINES = 16


class LinkInfo(TextBlock):
    """`GPU Link Info`: generation and width, the most and the current one."""

    reopens: ClassVar[bool] = True

    _HEADING = re.compile(r"\s{0,32}(PCIe Generation|Link Width)\s{0,32}")
    _VALUE = re.compile(r"\s{0,40}(Max|Current)\s{1,60}: (\d{1,3})x?\s{0,8}")

    def __init__(self, fields: Mapping[str, FieldValue], doubtful: bool) -> None:
        self.over = False
        self._lines = 0
        self._heading = ""
        self._fields: dict[str, FieldValue] = {}
        self._evidence: tuple[Line, int] | None = None

    def take(self, line: Line, start: int, content: str) -> list[Outcome]:
        """Read a heading or a value."""
        self._lines += 1
        if heading := self._HEADING.fullmatch(content):
            self._heading = "link_gen" if heading[1] == "PCIe Generation" else "link_width"
        elif (value := self._VALUE.fullmatch(content)) and self._heading:
            self._fields[self._heading + ("_max" if value[1] == "Max" else "")] = int(value[2])
            self._evidence = (line, start)
        self.over = {"link_width", "link_width_max"} <= self._fields.keys() or self._lines > MOST_LINES
        return self.close() if self.over else []

    def close(self) -> list[Outcome]:
        """What has been read so far."""
        evidence, self._evidence = self._evidence, None
        return [Outcome(*evidence, self._fields)] if evidence else []
