"""Whether Fabric Manager runs, as systemctl answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from aidiag.collectors.logs.blocks.block import Outcome, TextBlock
from aidiag.collectors.logs.scanner import Line
from aidiag.collectors.observation import FieldValue

MOST_LINES = 12


class FabricService(TextBlock):
    """`systemctl status` of the service up to its `Active:` line, or the one word of `systemctl is-active`."""

    reopens: ClassVar[bool] = True

    _ACTIVE = re.compile(r"\s{0,16}Active: (\w{1,20})(?: \((\w{1,20})\))?.*")
    _WORD = re.compile(r"\s{0,4}(active|inactive|failed|activating|deactivating|unknown)\s{0,4}")

    def __init__(self, fields: Mapping[str, FieldValue], doubtful: bool) -> None:
        self.over = False
        self._lines = 0
        self._asked = False

    def take(self, line: Line, start: int, content: str) -> list[Outcome]:
        """Read the command or the heading, then what follows."""
        self._lines += 1
        if self._lines == 1:
            self._asked = "is-active" in content
            return []
        found = self._WORD.fullmatch(content) if self._asked else self._ACTIVE.fullmatch(content)
        self.over = found is not None or self._asked or self._lines > MOST_LINES
        return [Outcome(line, start, {"state": found[1]})] if found else []

    def close(self) -> list[Outcome]:
        """Without an answer nothing is known."""
        return []
