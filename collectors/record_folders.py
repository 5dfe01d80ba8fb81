"""The folders in which trainer shims of this host may keep their records."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from aidiag.trainer_shim.folder import candidates
from aidiag.trainer_shim.owner import FileName, parse_file_name

PARENTS = (("/run/aidiag/u", ""), ("/dev/shm", "aidiag-"))
"""Where the shim's usual folders lie, one for each user, and how their names begin (trainer_shim.folder)."""
NAMES_CAP = 4096

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class ShimFile:
    """A file of a shim: its path for people, what its name says, its identity, and the owner of its folder."""

    path: str
    name: FileName
    key: tuple[int, int]
    uid: int
    made: float


class Folder:
    """An open folder of one user. Raises OSError where there is none, or where its files could be anybody's.

    `path` is for people where `fd` is given: the folder, opened by somebody else, which is then this one's to close.
    """

    def __init__(self, path: str, fd: int | None = None) -> None:
        self.path = path
        self._fd = os.open(path, _OPEN) if fd is None else fd
        facts = os.fstat(self._fd)
        self.uid = facts.st_uid
        if facts.st_mode & 0o022 or (os.geteuid() not in (0, facts.st_uid)):
            self.close()
            raise PermissionError(f"{self.path} is not a folder of ours")

    def close(self) -> None:
        """Close the folder."""
        os.close(self._fd)

    def open_file(self, name: str, flags: int) -> int:
        """Open a file of the folder, which is not a link, without waiting for anything."""
        return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._fd)

    @property
    def fd(self) -> int:
        """The open folder."""
        return self._fd

    def files(self, kind: str) -> Iterator[tuple[str, ShimFile]]:
        """The shim's files of one kind (`record` or `off`) with their names, sorted."""
        try:
            names = sorted(os.listdir(self._fd)[:NAMES_CAP])
        except OSError:
            return
        for name in names:
            said = parse_file_name(name)
            if said is None or said.kind != kind:
                continue
            try:
                facts = os.stat(name, dir_fd=self._fd, follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISREG(facts.st_mode) and facts.st_uid == self.uid:
                key = (facts.st_dev, facts.st_ino)
                yield name, ShimFile(os.path.join(self.path, name), said, key, self.uid, facts.st_ctime)


def usual_folders() -> list[str]:
    """The shim's usual places in our own mounts: those of this user, and those of all users for root."""
    found = dict.fromkeys(candidates(os.environ, os.geteuid()))
    if os.geteuid() == 0:
        for parent, prefix in PARENTS:
            try:
                names = os.listdir(parent)[:NAMES_CAP]
            except OSError:
                continue
            found.update(dict.fromkeys(f"{parent}/{name}" for name in sorted(names) if _is_users(name, prefix)))
    return list(found)


def _is_users(name: str, prefix: str) -> bool:
    return name.startswith(prefix) and name.removeprefix(prefix).isdecimal()
