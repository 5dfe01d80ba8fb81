"""Locks that at most one process of a host holds."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
from pathlib import Path

from aidiag.diagnose.job.folder import FolderError


def lock(path: Path) -> int | None:
    """Take an exclusive lock on a file: an open descriptor that holds it, None where another process has it.

    The lock belongs to the open file, so a child that inherits the descriptor keeps it (flock(2)). Where the file
    system knows no locks (some Lustre and NFS mounts), a file in the user's tmpfs folder stands in: the lock only
    has to hold within one host. Raises OSError where neither can be opened.
    """
    fd = _open_lock(path)
    try:
        return _try(fd)
    except OSError as problem:
        if problem.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL):
            raise
    return _try(_open_lock(local_lock(path)))


def local_lock(path: Path, *, shared_memory: Path = Path("/dev/shm")) -> Path:
    """A lock file on this host that stands for `path`. Makes its folder, 0700 and our own."""
    folder = shared_memory / f"aidiag-{os.geteuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    facts = folder.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
        raise FolderError(f"{folder}: is not a folder of user {os.geteuid()}")
    return folder / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}.lock"


def _try(fd: int) -> int | None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return fd
    except BlockingIOError:
        os.close(fd)
        return None
    except OSError:
        os.close(fd)
        raise


def _open_lock(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o664)
