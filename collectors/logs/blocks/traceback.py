"""A Python traceback."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from aidiag.collectors.logs.blocks.block import Outcome, TextBlock
from aidiag.collectors.logs.scanner import Line
from aidiag.collectors.observation import FieldValue


class Traceback(TextBlock):
    """`Traceback (most recent call last):`, frames, and at the end the exception. Keeps the deepest frame of the user."""

    reopens: ClassVar[bool] = True

    _FRAME = re.compile(r'\s{1,64}File "([^"]{1,1000})", line (\d{1,9})(?:, in (.{1,200}))?')
    _END = re.compile(r"([A-Za-z_][\w.]{0,200})(?::\s?(.{0,1000}).*)?")
    _LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python\d|/torch/|^<")

    def __init__(self, fields: Mapping[str, FieldValue], doubtful: bool) -> None:
        self.over = False
        self._doubtful = doubtful
        self._began = False
        self._deepest: tuple[str, int, str] | None = None
        self._user: tuple[str, int, str] | None = None

    def take(self, line: Line, start: int, content: str) -> list[Outcome]:
        """Read a frame, a line of code, or the exception at the end."""
        if not self._began:
            self._began = True
            return []
        if frame := self._FRAME.match(content):
            self._deepest = (frame[1], int(frame[2]), (frame[3] or "").strip())
            if not self._LIBRARY.search(frame[1]):
                self._user = self._deepest
            return []
        if not content.strip() or content[0] in " \t":
            return []
        self.over = True
        ended = self._END.fullmatch(content)
        if not ended or not self._deepest:
            return []
        fields: dict[str, FieldValue] = {"type": ended[1]}
        if ended[2]:
            fields["text"] = ended[2].strip()
        if not self._doubtful:
            fields["file"], fields["line"], function = self._user or self._deepest
            fields |= {"function": function} if function else {}
        return [Outcome(line, start, fields)]

    def close(self) -> list[Outcome]:
        """Without its last line a traceback says nothing."""
        return []
