"""Keeping a copy of a stream on a disk that may be slow, full or gone, without ever waiting for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from threading import Condition, Thread
from typing import Protocol

from aidiag.diagnose.run.segments import Segments

WAITING_BYTES = 4 << 20
RETRY_SECONDS = 10.0


class Sink(Protocol):
    """Where a capture goes (Segments)."""

    def write(self, data: bytes) -> None:
        """Append; raises OSError."""

    def mark(self, text: str) -> None:
        """Append a line of our own; raises OSError."""

    def close(self) -> None:
        """Close; raises OSError."""


class Capture:
    """A queue of bounded size in front of a file, with a thread that empties it.

    What does not fit is dropped, counted, and marked in the file. Nothing is written before `begin`.
    """

    def __init__(self, *, waiting_bytes: int = WAITING_BYTES, open_sink: Callable[[Path], Sink] = Segments) -> None:
        self._waiting_bytes, self._open_sink = waiting_bytes, open_sink
        self._changed = Condition()
        self._waiting = bytearray()
        self._dropped = 0
        self._closing = False
        self._idle = True
        self._thread: Thread | None = None

    def begin(self, path: Path) -> None:
        """Start writing to `path`."""
        self._thread = Thread(target=self._write_all, args=(path,), name=f"capture {path.name}", daemon=True)
        self._thread.start()

    def put(self, data: bytes) -> None:
        """Take a copy of what the stream said. Never waits for the disk."""
        with self._changed:
            if self._dropped or len(self._waiting) + len(data) > self._waiting_bytes:
                self._dropped += len(data)
            else:
                self._waiting += data
            self._idle = False
            self._changed.notify_all()

    def flush(self, wait_seconds: float) -> bool:
        """Wait until all that was put is written; False where the disk did not do it in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._thread is None or self._idle, wait_seconds)

    def close(self, wait_seconds: float) -> bool:
        """Write what waits and close the file; False where the disk did not do it in time."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is None:
            return True
        self._thread.join(wait_seconds)
        return not self._thread.is_alive()

    def _next(self) -> tuple[bytes, int, bool]:
        """The waiting bytes, how many were dropped behind them, and whether more may come."""
        with self._changed:
            while not (self._waiting or self._dropped or self._closing):
                self._idle = True
                self._changed.notify_all()
                self._changed.wait()
            data, dropped = bytes(self._waiting), self._dropped
            self._waiting.clear()
            self._dropped = 0
            return data, dropped, not self._closing

    def _write_all(self, path: Path) -> None:
        sink: Sink | None = None
        retry_at, lost, more = 0.0, 0, True
        while more:
            data, dropped, more = self._next()
            if sink is None and time.monotonic() < retry_at and more:
                lost += len(data) + dropped
                continue
            try:
                if sink is None:
                    sink = self._open_sink(path)
                if lost:
                    sink.mark(f"{lost} bytes of output are missing here: the disk did not take them")
                    lost = 0
                sink.write(data)
                if dropped:
                    sink.mark(f"{dropped} bytes of output are missing here: the disk did not keep up")
            except OSError:
                lost += len(data) + dropped
                retry_at = time.monotonic() + RETRY_SECONDS
                _close(sink)
                sink = None
        _close(sink)


def _close(sink: Sink | None) -> None:
    if sink is not None:
        try:
            sink.close()
        except OSError:
            return
