"""Reading small files that others may have made: no links followed, no waiting, never more than a limit."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

READ_LIMIT_BYTES = 4 << 20


def read_bounded(path: Path, limit_bytes: int = READ_LIMIT_BYTES, *, ours: bool = False) -> bytes:
    """The content of a plain file. Raises OSError for links, devices and pipes, and for files above the limit; with
    `ours` for files of others, too, and for those that others may write.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EINVAL, "not a plain file", str(path))
        if ours and (facts.st_uid != os.geteuid() or facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
            raise PermissionError(errno.EPERM, "not a file that this user alone may write", str(path))
        data = file.read(limit_bytes + 1)
    if len(data) > limit_bytes:
        raise OSError(errno.EFBIG, f"larger than {limit_bytes} bytes", str(path))
    return data
