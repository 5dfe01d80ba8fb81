"""`nvidia-smi nvlink -s`: the links of each GPU."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from aidiag.collectors.logs.blocks.block import Outcome, TextBlock
from aidiag.collectors.logs.scanner import Line
from aidiag.collectors.observation import FieldValue


class NvlinkStatus(TextBlock):
    """Opened by the command or by a first link. Tells each GPU that has links, and how many of them are inactive."""

    reopens: ClassVar[bool] = False

    _GPU = re.compile(r"\s{0,8}GPU (\d{1,3}): .*")
    _LINK = re.compile(r"\s{0,16}Link (\d{1,3}): (<inactive>|[\d.]{1,8} GB/s).*")

    def __init__(self, fields: Mapping[str, FieldValue], doubtful: bool) -> None:
        self.over = False
        self._began = False
        self._gpu: int | None = None
        self._links = 0
        self._inactive = 0
        self._evidence: tuple[Line, int] | None = None

    def take(self, line: Line, start: int, content: str) -> list[Outcome]:
        """Read the command, the name of a GPU, one of its links, or what comes after."""
        link = self._LINK.fullmatch(content)
        if link:
            self._began = True
            self._links += 1
            down = link[2] == "<inactive>"
            self._inactive += down
            if self._evidence is None or (down and self._inactive == 1):
                self._evidence = (line, start)
            return []
        told = self.close()
        gpu = self._GPU.fullmatch(content)
        if gpu:
            self._gpu = int(gpu[1])
        elif self._began and content.strip():
            self.over = True
        self._began = True
        return told

    def close(self) -> list[Outcome]:
        """The GPU that has been read so far."""
        evidence, links, inactive = self._evidence, self._links, self._inactive
        self._evidence, self._links, self._inactive = None, 0, 0
        if evidence is None:
            return []
        fields: dict[str, FieldValue] = {"links": links, "inactive": inactive}
        return [Outcome(*evidence, fields | ({} if self._gpu is None else {"gpu": self._gpu}))]
