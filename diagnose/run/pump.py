"""Moving a stream from the command to the user, and a copy into its capture."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import sys
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread

from aidiag.diagnose.run.capture import Capture
from aidiag.diagnose.run.streams import Stream

CHUNK_BYTES = 1 << 16
QUIET_SECONDS = 0.05
"""A pseudo-terminal hands on what was written by a kernel worker: it is empty when it has been so for this long."""


class BrokenDisplayError(Exception):
    """Nobody reads any more what the command prints: its reader has gone."""


class Display:
    """Where the user sees a stream. Our own lines go between the command's lines."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = Lock()
        self._at_line_start = True
        self.lost_bytes = 0

    def write(self, data: bytes) -> None:
        """Show what the command wrote, waiting for a slow reader as the command itself would.

        Raises BrokenDisplayError where the reader of a pipe has gone. A terminal that was closed and a full disk are
        no reason to stop a job: then the bytes are lost here, and counted.
        """
        with self._lock:
            self._write(data)
            self._at_line_start = data.endswith((b"\n", b"\r"))

    def say(self, text: str) -> None:
        """Show lines of our own."""
        with self._lock, suppress(BrokenDisplayError):
            self._write(b"" if self._at_line_start else b"\n")
            self._write(text.encode(errors="backslashreplace") + b"\n")
            self._at_line_start = True

    def close(self) -> None:
        """Let go of the user's file; what comes later goes nowhere."""
        with suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._fd, inheritable=False)
            os.close(nowhere)

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                select.select([], [self._fd], [])
            except OSError as problem:
                if problem.errno in (errno.EPIPE, errno.ECONNRESET):
                    raise BrokenDisplayError from None
                self.lost_bytes += len(rest)
                return


class Pump(Thread):
    """Moves one stream until its end. The end comes when nobody holds the command's side of it any more.

    `changed` is called when `drained` is set and at the end.

    `broken` is called, once, when the user's reader has gone; then the stream is closed, so that the command meets
    what it would have met without us (SIGPIPE). After a fault of our own `failed` is set, and the stream is left.
    """

    def __init__(
        self,
        stream: Stream,
        capture: Capture,
        display: Display,
        broken: Callable[[Stream], None],
        changed: Callable[[], None],
    ) -> None:
        super().__init__(name=f"pump {stream.name}", daemon=True)
        self._stream, self._capture, self._display = stream, capture, display
        self._broken, self._changed = broken, changed
        self._bell, self._ringer = os.pipe()
        self._over = Event()
        self.drained = Event()
        self.failed = self.ended = False

    def command_is_over(self) -> None:
        """Tell that the command has ended: `drained` is set as soon as all that it wrote is shown.

        What it left running may go on writing.
        """
        self._over.set()
        os.write(self._ringer, b"!")

    def run(self) -> None:
        """Move until the end."""
        try:
            self._move()
        except BrokenDisplayError:
            self._broken(self._stream)
        except BaseException:
            self.failed = True
            raise
        finally:
            os.close(self._stream.source)
            self.ended = True
            self._set_drained()

    def _move(self) -> None:
        source = self._stream.source
        poll = select.poll()
        poll.register(source, select.POLLIN)
        poll.register(self._bell, select.POLLIN)
        left: int | None = None  # how much of the ended command's output is still to be shown
        while True:
            ready = {fd for fd, _ in poll.poll(None if left is None or self.drained.is_set() else QUIET_SECONDS * 1000)}
            if self._bell in ready:
                os.read(self._bell, 1)
                left = waiting_bytes(source) + (CHUNK_BYTES if self._stream.terminal else 0)
            if source in ready:
                data = self._read(source)
                if data is None:
                    return
                if data:
                    self._capture.put(data)
                    self._display.write(data)
                if left is not None:
                    left -= len(data)
            if left is not None and not self.drained.is_set() and (left <= 0 or not ready):
                self._set_drained()

    def _set_drained(self) -> None:
        self.drained.set()
        self._changed()

    def _read(self, source: int) -> bytes | None:
        """Some bytes, none where a terminal is closed but may be opened again, None at the end."""
        try:
            return os.read(source, CHUNK_BYTES) or None
        except OSError as problem:
            if problem.errno == errno.EIO and not self._over.is_set():
                time.sleep(QUIET_SECONDS)
                return b""
            return None


def move_plainly(stream: Stream) -> Thread:
    """A thread that moves a stream with the least of means: what is left when nothing else works."""

    def move() -> None:
        with suppress(OSError):
            while data := os.read(stream.source, CHUNK_BYTES):
                os.write(stream.display, data)

    thread = Thread(target=move, name=f"plain {stream.name}", daemon=True)
    thread.start()
    return thread


def waiting_bytes(fd: int) -> int:
    """How much can be read from a pipe or terminal at once."""
    try:
        return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4), sys.byteorder)
    except OSError:
        return 0
