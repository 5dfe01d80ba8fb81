from __future__ import annotations

import errno
from pathlib import Path
from threading import Event

from aidiag.diagnose.run.capture import Capture


class SlowDisk:
    """A disk that takes nothing before it is allowed to."""

    def __init__(self) -> None:
        self.turns = Event()
        self.text = b""
        self.entered = Event()

    def write(self, data: bytes) -> None:
        """Wait, then take."""
        self.entered.set()
        self.turns.wait(60)
        self.text += data

    def mark(self, text: str) -> None:
        """Take a mark."""
        self.text += f"<{text}>".encode()

    def close(self) -> None:
        """Nothing to close."""


def test_a_hanging_disk_holds_nobody_up() -> None:
    """While the disk hangs, `put` returns, memory stays bounded, and later the gap is marked with its size."""
    disk = SlowDisk()
    capture = Capture(waiting_bytes=1000, open_sink=lambda _path: disk)
    capture.begin(Path("x"))
    capture.put(b"a" * 10)
    assert disk.entered.wait(60)
    for _ in range(50):
        capture.put(b"b" * 100)

    assert not capture.flush(0.01)
    disk.turns.set()
    assert capture.close(60)
    assert b"a" * 10 + b"b" * 1000 + b"<4000 bytes of output are missing here: the disk did not keep up>" == disk.text


def test_nothing_is_missing_where_the_disk_keeps_up() -> None:
    """The twin: with an allowed disk everything is kept, in order, without a mark."""
    disk = SlowDisk()
    disk.turns.set()
    capture = Capture(waiting_bytes=1000, open_sink=lambda _path: disk)
    capture.put(b"before the folder is there, ")
    capture.begin(Path("x"))
    for number in range(50):
        capture.put(b"%d " % number)
        assert capture.flush(60)

    assert capture.close(60)
    assert b"before the folder is there, " + b"".join(b"%d " % number for number in range(50)) == disk.text


class FullDisk(SlowDisk):
    """A disk that is full at its first write."""

    full = True

    def write(self, data: bytes) -> None:
        """Refuse once."""
        if self.full:
            self.full = False
            raise OSError(errno.ENOSPC, "full")
        self.text += data


def test_a_full_disk_leaves_a_mark_when_there_is_room_again() -> None:
    """What a full disk refused is counted where the output goes on."""
    disk = FullDisk()
    capture = Capture(open_sink=lambda _path: disk)
    capture.begin(Path("x"))
    capture.put(b"12345")
    capture.flush(60)
    capture.put(b"678")

    assert capture.close(60)
    assert disk.text in (
        b"<5 bytes of output are missing here: the disk did not take them>678",
        b"<8 bytes of output are missing here: the disk did not take them>",
    )
