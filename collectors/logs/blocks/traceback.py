"""A Python traceback."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from aidiag.collectors.logs.blocks.block import Outcome, TextBlock
from aidiag.collectors.logs.scanner import Line
from aidiag.collectors.observation import FieldValue


class Frame(NamedTuple):
    """A frame, and the line of code that is printed below it."""

    file: str
    line: int
    function: str
    code: str = ""


class Traceback(TextBlock):
    """`Traceback (most recent call last):`, frames, and at the end the exception.

    Keeps the deepest frame of the user (`file`, `line`, `function`), the deepest one outside of torch with its code and what
    it called in torch (`innermost`), and the names of all functions from the outermost on (`functions`). An exception that
    tells that memory ran out is `about` memory.
    """

    reopens: ClassVar[bool] = True

    _HEAD = "Traceback (most recent call last)"
    _FRAME = re.compile(r'\s{1,64}File "([^"]{1,1000})", line (\d{1,9})(?:, in (.{1,200}))?')
    _END = re.compile(r"([A-Za-z_][\w.]{0,200})(?::\s?(.{0,1000}).*)?")
    _MARKS = re.compile(r"[\s^~]+")
    _LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python\d|/torch/|^<")
    _TORCH = re.compile(r"(?:^|/)torch/|torchinductor|^<|/(?:contextlib|functools|threading|runpy)\.py$")
    _MEMORY = re.compile(
        r"out of memory|OutOfMemory|RESOURCE_EXHAUSTED|ResourceExhausted|ALLOC_FAILED|MemoryAllocation"
    )
    _DIGITS = re.compile(r"\d")

    def __init__(self, fields: Mapping[str, FieldValue], doubtful: bool) -> None:
        self.over = False
        self._doubtful = doubtful
        self._lead: str | None = None
        self._frames: list[Frame] = []

    def take(self, line: Line, start: int, content: str) -> list[Outcome]:
        """Read a frame, a line of code, or the exception at the end."""
        if self._lead is None:
            self._lead = self._DIGITS.sub("0", content[: max(0, content.find(self._HEAD))])
            return []
        if self._lead and self._DIGITS.sub("0", content[: len(self._lead)]) == self._lead:
            start += len(content[: len(self._lead)].encode())  # a logger that repeats its prefix on each line
            content = content[len(self._lead) :]
        if frame := self._FRAME.match(content):
            self._frames.append(Frame(frame[1], int(frame[2]), (frame[3] or "").strip()))
            return []
        if not content.strip() or content[0] in " \t":
            if self._frames and not self._frames[-1].code and not self._MARKS.fullmatch(content):
                self._frames[-1] = self._frames[-1]._replace(code=content.strip()[:200])
            return []
        self.over = True
        ended = self._END.fullmatch(content)
        if not ended or not self._frames:
            return []
        fields: dict[str, FieldValue] = {"type": ended[1]}
        if ended[2]:
            fields["text"] = ended[2].strip()
        if self._MEMORY.search(content):
            fields["about"] = "memory"
        if not self._doubtful:
            fields |= self._place()
        return [Outcome(line, start, fields)]

    def close(self) -> list[Outcome]:
        """Without its last line a traceback says nothing."""
        return []

    def _place(self) -> dict[str, FieldValue]:
        frames = self._frames
        user = next((frame for frame in reversed(frames) if not self._LIBRARY.search(frame.file)), frames[-1])
        outside = [number for number, frame in enumerate(frames) if not self._TORCH.search(frame.file)]
        deepest = outside[-1] if outside else len(frames) - 1
        called = [frame.function for frame in frames[deepest + 1 :] if frame.function]
        innermost = f"{frames[deepest].function}: {frames[deepest].code} {' '.join(called)}".strip()
        place: dict[str, FieldValue] = {"file": user.file, "line": user.line, "innermost": innermost[:1000]}
        place["functions"] = " ".join(frame.function for frame in frames if frame.function)[-1000:]
        return place | ({"function": user.function} if user.function else {})


class TornTraceback(Traceback):
    """A traceback whose first lines are missing: it begins with a frame."""

    reopens: ClassVar[bool] = False
    part_of: ClassVar[tuple[str, ...]] = ("traceback",)

    _FRAME = re.compile(r'\s{0,64}File "([^"]{1,1000})", line (\d{1,9})(?:, in (.{1,200}))?')
    _END = re.compile(
        r"((?:[A-Za-z_]\w{0,100}\.){0,8}[A-Z]\w{0,100}(?:Error|Exception|Interrupt))(?::\s?(.{0,1000}).*)?"
    )

    def take(self, line: Line, start: int, content: str) -> list[Outcome]:
        """Read a frame (the first line is one), a line of code, or the exception at the end."""
        if self._lead is None:
            self._lead = self._DIGITS.sub("0", content[: content.find('File "')].removesuffix("  "))
        return super().take(line, start, content)
