"""Opening logs: regular files only, without following links and without ever blocking; and whose a file is."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path

from aidiag.collectors.logs.attribution import Owner
from aidiag.collectors.logs.compressed import plain_name


class RefusedError(OSError):
    """A path that is no log: a link, a pipe, a device, a folder, or a name for another user's file."""


def open_regular(path: Path) -> int:
    """A descriptor for reading a regular file. Raises OSError, RefusedError where the path is something else.

    The checks are on what was opened, so that a change between check and open cannot matter.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise RefusedError(errno.ELOOP, "is a symbolic link", str(path)) from None
        if error.errno == errno.ENXIO:
            raise RefusedError(errno.ENXIO, "is a socket", str(path)) from None
        raise
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise RefusedError(errno.EINVAL, f"is {_KINDS.get(stat.S_IFMT(found.st_mode), 'no file')}", str(path))
        if os.geteuid() == 0 and found.st_nlink > 1 and found.st_uid != path.parent.stat().st_uid:
            # As root one would read what the owner of the folder may not: a hard link is enough to ask for it.
            raise RefusedError(errno.EPERM, "is a hard link to another user's file", str(path))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}

_NCCL = re.compile(r"nccl\.(.{1,253})\.(\d{1,10})\.log")
_ELASTIC = re.compile(r"/attempt_\d{1,6}/(\d{1,4})/(?:stdout|stderr|error)\.(?:log|json)$")
_RANK = re.compile(
    r"(?<![a-z])(?<!local[_-])(?<!node[_-])(?<!group[_-])rank[-_.]?0{0,6}(\d{1,7})(?![\d])", re.IGNORECASE
)
_LOCAL_RANK = re.compile(r"local[_-]?rank[-_.]?(\d{1,4})(?![\d])", re.IGNORECASE)


def owner_by_name(path: Path) -> Owner:
    """Whose a file is by its name: NCCL_DEBUG_FILE as `aidiag run` sets it, torchrun's log folders, `rank3.log`; also where
    it was compressed.
    """
    path = path.with_name(plain_name(path.name)) if path.name else path
    if found := _NCCL.fullmatch(path.name):
        return Owner(host=found[1], pid=int(found[2]))
    if found := _ELASTIC.search(str(path)):
        return Owner(local_rank=int(found[1]), certain=False)
    if found := _LOCAL_RANK.search(path.name):
        return Owner(local_rank=int(found[1]), certain=False)
    if found := _RANK.search(path.name):
        return Owner(rank=int(found[1]), certain=False)
    return Owner()
