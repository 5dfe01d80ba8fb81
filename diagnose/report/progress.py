"""How far a long reading of logs has come: one line on the terminal, erased before anything else is printed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from typing import TextIO

from aidiag.rules.texts import size

PATIENCE_SECONDS = 1.0
"""Work that is over by then shows nothing."""

REDRAW_SECONDS = 0.1
BAR_CELLS = 20


class Progress:
    """A bar on `stream`; nothing at all where that is no terminal."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._shown = stream.isatty()
        self._total_bytes: int | None = 0
        self._clock = clock
        self._began = clock()
        self._due = self._began + PATIENCE_SECONDS
        self._done_bytes = 0
        self._drawn = False

    def expect(self, count: int | None) -> None:
        """Say that there are `count` more bytes to be read; None: nobody knows how many (a pipe)."""
        self._total_bytes = None if count is None or self._total_bytes is None else self._total_bytes + count

    def __call__(self, count: int) -> None:
        """Say that `count` more bytes were read."""
        if not self._shown:
            return
        self._done_bytes += count
        now = self._clock()
        if now >= self._due:
            self._due = now + REDRAW_SECONDS
            self._draw(self._text(now - self._began))

    def erase(self) -> None:
        """Leave the terminal as it was."""
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._drawn = False

    def _draw(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        self._stream.write(f"\r\x1b[K{text[:width]}")
        self._stream.flush()
        self._drawn = True

    def _text(self, seconds: float) -> str:
        rate = self._done_bytes / seconds
        done = f"{size(self._done_bytes)}, {size(rate)}/s"
        if not self._total_bytes:
            return f"aidiag: read {done}"
        share = min(1.0, self._done_bytes / self._total_bytes)
        bar = "#" * round(share * BAR_CELLS)
        left = round((self._total_bytes - self._done_bytes) / rate) if share < 1 else 0
        return f"aidiag: reading [{bar:<{BAR_CELLS}}] {share:4.0%}  {done}, {left} s left"
