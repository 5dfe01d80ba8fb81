"""Where records lie: a folder of ours on a tmpfs, checked after it is open, never before.

`$AIDIAG_DIR` is taken as it is given; else `/run/aidiag/u/<uid>`, which a daemon makes; else `/dev/shm/aidiag-<uid>`,
which the shim makes. Off a tmpfs a write could wait for a disk, or for a file server that is gone.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping, Sequence
from typing import Optional

from . import layout, owner

TMPFS_MAGIC = 0x01021994
"""linux/magic.h"""

FILES_LIMIT = 256
"""Files that one user may leave in a folder."""
DEAD_KEPT_SECONDS = 3600.0
"""How long the record of a process that has ended stays, so that somebody can still ask how it ended."""

_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class OffError(Exception):
    """The shim cannot work here: `code` from a closed list for machines, `reason` for people."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


def candidates(environ: Mapping[str, str], uid: int) -> Sequence[str]:
    """The folders to try, best first."""
    chosen = environ.get("AIDIAG_DIR")
    return (chosen,) if chosen else (f"/run/aidiag/u/{uid}", f"/dev/shm/aidiag-{uid}")


def is_tmpfs(fd: int) -> bool:
    """Whether an open file lies on a tmpfs, by fstatfs(2); Python's statvfs leaves the type out."""
    import ctypes
    import sys

    answer = ctypes.create_string_buffer(256)
    if ctypes.CDLL(None, use_errno=True).fstatfs(fd, answer) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    kind = int.from_bytes(answer.raw[: ctypes.sizeof(ctypes.c_long)], sys.byteorder)
    return kind & 0xFFFFFFFF == TMPFS_MAGIC


def open_own(path: str, *, create: bool) -> int:
    """Open a folder of this user that nobody else can write to. Raises OffError."""
    if create:
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            pass
        except OSError as error:
            raise OffError("no_folder", f"cannot make {path}: {error.strerror}") from None
    try:
        fd = os.open(path, _OPEN_FOLDER)
    except OSError as error:
        raise OffError("no_folder", f"cannot open {path}: {error.strerror}") from None
    facts = os.fstat(fd)
    problem = None
    if facts.st_uid != os.geteuid():
        problem = OffError("foreign_folder", f"{path} belongs to user {facts.st_uid}, not to {os.geteuid()}")
    elif stat.S_IMODE(facts.st_mode) & 0o022:
        problem = OffError("foreign_folder", f"{path} can be written to by others: chmod 700 it")
    if problem is not None:
        os.close(fd)
        raise problem
    return fd


def create_record(environ: Mapping[str, str], here: owner.Owner) -> tuple[str, int]:
    """Path and descriptor of a new record of process `here` in the first candidate that will do.

    Raises the OffError of the last candidate when none does.
    """
    last = OffError("no_folder", "no folder to try")
    for path in candidates(environ, os.geteuid()):
        name = owner.file_name(here)
        try:
            folder_fd = open_own(path, create=not path.startswith("/run/"))
            try:
                if not is_tmpfs(folder_fd):
                    raise OffError("not_tmpfs", f"{path} is not on a tmpfs")
                reap(folder_fd, here)
                return os.path.join(path, name), reserve(folder_fd, name)
            finally:
                os.close(folder_fd)
        except OffError as error:
            last = error
        except OSError as error:
            last = OffError("no_folder", f"cannot use {path}: {error.strerror}")
    raise last


def reserve(folder_fd: int, name: str) -> int:
    """A new file of layout.FILE_BYTES with all its blocks reserved, open for reading and writing. Raises OffError.

    RLIMIT_FSIZE is asked first: growing a file beyond it is answered by SIGXFSZ, which ends the process.
    """
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if soft != resource.RLIM_INFINITY and soft < layout.FILE_BYTES:
        raise OffError("file_size_limit", f"ulimit -f allows {soft} bytes, a record needs {layout.FILE_BYTES}")
    try:
        fd = os.open(name, _CREATE, 0o600, dir_fd=folder_fd)
    except OSError as error:
        raise OffError("no_file", f"cannot make a record: {error.strerror}") from None
    try:
        os.posix_fallocate(fd, 0, layout.FILE_BYTES)
    except OSError as error:
        os.close(fd)
        os.unlink(name, dir_fd=folder_fd)
        raise OffError("no_space", f"cannot reserve {layout.FILE_BYTES} bytes: {error.strerror}") from None
    return fd


def reap(folder_fd: int, here: owner.Owner, now: Optional[float] = None) -> None:
    """Remove what ended processes of this namespace have left: after an hour, or sooner when the folder is full.

    Raises OffError when FILES_LIMIT living processes have their files here already.
    """
    now = time.time() if now is None else now
    kept: list[tuple[float, bool, str]] = []
    for name in os.listdir(folder_fd):
        parsed = owner.parse_file_name(name)
        if parsed is None:
            continue
        try:
            made = os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_ctime
            dead = owner.lives(parsed.owner, here) is False
            if dead and now - made > DEAD_KEPT_SECONDS:
                os.unlink(name, dir_fd=folder_fd)
            else:
                kept.append((made, dead, name))
        except FileNotFoundError:
            continue
    excess = len(kept) - FILES_LIMIT + 1
    if excess <= 0:
        return
    oldest_dead = sorted(entry for entry in kept if entry[1])[:excess]
    for _, _, name in oldest_dead:
        os.unlink(name, dir_fd=folder_fd)
    if len(oldest_dead) < excess:
        raise OffError("too_many_files", f"{len(kept)} records of living processes are in the folder")
