"""The kernel log through /dev/kmsg (Documentation/ABI/testing/dev-kmsg)."""

from __future__ import annotations

import errno
import os
import re
import time

from aidiag.collectors.answers import KERNEL_LEVELS, KernelMessage

RECORD_BYTES = 8192
RECORDS_LIMIT = 50_000

_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")


def read_kernel_log(path: str = "/dev/kmsg") -> list[KernelMessage]:
    """All records that the kernel still holds, oldest first. Raises PermissionError where dmesg is restricted."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    now = time.clock_gettime(time.CLOCK_MONOTONIC)
    messages = []
    try:
        for _ in range(RECORDS_LIMIT):
            try:
                record = os.read(descriptor, RECORD_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno == errno.EPIPE:  # overwritten while we read: go on with the oldest that is left
                    continue
                raise
            if not record:
                break
            message = parse_record(record, now)
            if message:
                messages.append(message)
    finally:
        os.close(descriptor)
    return messages


def parse_record(record: bytes, now: float) -> KernelMessage | None:
    """`priority,sequence,microseconds,flags[,...];text`, then dictionary lines. None where it is no such record."""
    head, semicolon, rest = record.partition(b";")
    fields = head.split(b",")
    if not semicolon or len(fields) < 3 or not (fields[0].isdigit() and fields[2].isdigit()):
        return None
    text = _ESCAPE.sub(lambda match: bytes((int(match[1], 16),)), rest.split(b"\n", 1)[0])
    return KernelMessage(
        age_seconds=max(0.0, now - int(fields[2]) / 1e6),
        level=KERNEL_LEVELS[int(fields[0]) & 7],
        text=text.decode(errors="backslashreplace"),
    )
