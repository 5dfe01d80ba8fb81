"""The files of a recorded node: paths are looked up inside the tree as if it were the root of a file system.

A tree may come from anyone, so nothing outside it is ever read: symbolic links are followed by hand, absolute ones
start at the tree's top and `..` stops there, as in a chroot; only regular files are opened.
"""

# Paths of another root are text here, and Path objects would double the cost of a small read.
# ruff: noqa: PTH115, PTH208

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

LINKS_LIMIT = 40
"""Symbolic links on the way to one file, as in the kernel (path_resolution(7))."""


class RecordedTree:
    """A folder that stands for the root of a host. Methods take absolute paths of that host and raise OSError."""

    def __init__(self, top: Path) -> None:
        self._top = os.path.realpath(top).rstrip("/")
        self._folders: dict[str, str] = {}

    @property
    def top(self) -> Path:
        """The folder itself."""
        return Path(self._top or "/")

    def below(self, path: str) -> RecordedTree:
        """The tree in a folder of this one; its links stay inside it."""
        return RecordedTree(Path(self._place(path)))

    def read(self, path: str, limit_bytes: int) -> bytes:
        """The first bytes of a regular file."""
        place = self._place(path)
        descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EISDIR if Path(place).is_dir() else errno.EINVAL, "not a regular file", path)
            self._check_inside(descriptor, path)
            return read_bytes(descriptor, limit_bytes)
        finally:
            os.close(descriptor)

    def entries(self, path: str) -> list[str]:
        """The sorted names in a folder."""
        descriptor = os.open(self._place(path), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            self._check_inside(descriptor, path)
            return sorted(os.listdir(descriptor))
        finally:
            os.close(descriptor)

    def link(self, path: str) -> str:
        """Where a symbolic link points, as it is written."""
        folder, _, name = path.rstrip("/").rpartition("/")
        return os.readlink(f"{self._place(folder or '/')}/{name}")

    def exists(self, path: str) -> bool:
        """Whether a path is there, its links followed."""
        try:
            os.lstat(self._place(path))
        except OSError:
            return False
        return True

    def _check_inside(self, descriptor: int, path: str) -> None:
        """A folder may have been swapped for a link after it was looked at: ask the kernel what was opened."""
        try:
            opened = os.readlink(f"/proc/self/fd/{descriptor}")
        except OSError:
            return
        if opened != self._top and not opened.startswith(f"{self._top}/"):
            raise OSError(errno.ELOOP, "it leads out of the tree", path)

    def _place(self, path: str) -> str:
        """The real place of a path, every link followed; the last part need not exist."""
        if "\0" in path:
            raise OSError(errno.EINVAL, "a path cannot hold a zero byte", path)
        folder, _, name = path.rpartition("/")
        known = self._folders.get(folder)
        if known is None:
            known = self._folders[folder] = self._walk(self._top, [part for part in folder.split("/") if part], path)
        return self._walk(known, [name] if name else [], path) or "/"

    def _walk(self, here: str, parts: list[str], path: str) -> str:
        parts = parts[::-1]
        links = 0
        while parts:
            part = parts.pop()
            if part in (".", ""):
                continue
            if part == "..":
                here = here if here == self._top else here.rpartition("/")[0]
                continue
            candidate = f"{here}/{part}"
            try:
                target = os.readlink(candidate)
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.ENOENT):  # EINVAL: it is no link
                    raise
                here = candidate
                continue
            links += 1
            if links > LINKS_LIMIT:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            if target.startswith("/"):
                here = self._top
            parts += target.split("/")[::-1]
        return here


def read_bytes(descriptor: int, limit_bytes: int) -> bytes:
    """Up to `limit_bytes` of an open file, however small the pieces in which it gives them."""
    pieces = []
    while limit_bytes > 0 and (piece := os.read(descriptor, min(limit_bytes, 1 << 16))):
        pieces.append(piece)
        limit_bytes -= len(piece)
    return b"".join(pieces)
