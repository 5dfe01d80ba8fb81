"""The kernel log as it grows, through /dev/kmsg (Documentation/ABI/testing/dev-kmsg of the kernel)."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass

from aidiag.collectors.answers import KERNEL_LEVELS
from aidiag.collectors.errors import NotPermittedError

RECORD_BYTES = 8192
LINES_LIMIT = 20_000
"""Lines taken at one reading; the rest stays for the next."""


@dataclass(frozen=True, slots=True)
class KernelLine:
    """One record: `seconds` since boot by the kernel's own clock, its `level`, and whether the kernel wrote it.

    Programs may write to the log too, with another facility: what they write is no evidence. Control characters,
    backslashes and bytes that are not ASCII stand in `text` as the kernel escapes them, `\\x1b`.
    """

    sequence: int
    seconds: float
    level: str
    from_kernel: bool
    text: str


def parse_record(record: bytes) -> KernelLine | None:
    """Parse `priority,sequence,microseconds,flags[,...];text`. None where it is no such record."""
    head, semicolon, text = record.partition(b";")
    fields = head.split(b",")
    if not semicolon or len(fields) < 3 or not all(field.isdigit() and len(field) < 20 for field in fields[:3]):
        return None
    return KernelLine(
        sequence=int(fields[1]),
        seconds=int(fields[2]) / 1e6,
        level=KERNEL_LEVELS[int(fields[0]) & 7],
        from_kernel=int(fields[0]) >> 3 == 0,
        text=text.decode(errors="backslashreplace"),
    )


class KernelLog:
    """Follows the kernel log from the oldest line that is still held. `read` is os.read(2)."""

    def __init__(self, path: str = "/dev/kmsg", read: Callable[[int, int], bytes] = os.read) -> None:
        self._path, self._read = path, read
        self._descriptor: int | None = None
        self._next: int | None = None
        self._rest = b""

    def take(self, limit: int = LINES_LIMIT) -> tuple[list[KernelLine], int]:
        """The lines since the last call, at most `limit`, and how many were overwritten before they could be read.

        Raises NotPermittedError where this user may not read the log or there is none in this container.
        """
        if self._descriptor is None:
            self._descriptor = _open(self._path)
        descriptor = self._descriptor
        lines: list[KernelLine] = []
        lost = 0
        while len(lines) < limit:
            try:
                data = self._read(descriptor, RECORD_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno == errno.EPIPE:  # overwritten while we were away: the next record tells how many
                    self._rest = b""
                    continue
                raise
            if not data:
                break
            *records, self._rest = (self._rest + data).split(b"\n")
            for record in records:
                line = None if record.startswith(b" ") else parse_record(record)  # a blank: properties of the record
                if line is None:
                    continue
                lost += max(0, line.sequence - self._next) if self._next is not None else 0
                self._next = line.sequence + 1
                lines.append(line)
            self._rest = self._rest[-RECORD_BYTES:]
        return lines, lost

    def close(self) -> None:
        """Read no more."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None


def can_read(path: str = "/dev/kmsg") -> bool:
    """Whether the kernel log can be read here."""
    try:
        os.close(_open(path))
    except (OSError, NotPermittedError):
        return False
    return True


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError as error:
        raise NotPermittedError(
            f"{path}: {error.strerror}",
            "run aidiag as root or with CAP_SYSLOG, or set the sysctl kernel.dmesg_restrict to 0",
        ) from error
    except FileNotFoundError as error:
        raise NotPermittedError(
            f"there is no {path} here",
            "run aidiag on the host, or give the container the device /dev/kmsg and CAP_SYSLOG",
        ) from error
