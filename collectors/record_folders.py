"""The folders in which trainer shims of this host may keep their records, those in the mounts of containers too."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from aidiag.trainer_shim.folder import candidates
from aidiag.trainer_shim.owner import FileName, parse_file_name

PARENTS = (("/run/aidiag/u", ""), ("/dev/shm", "aidiag-"))
"""Where the shim's usual folders lie, one for each user, and how their names begin (trainer_shim.folder)."""
NAMES_CAP = 4096

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOUNT_ESCAPE = re.compile(r"\\([0-7]{3})")


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

    `root` is a process's root (/proc/PID/root), below which no link is followed: a link in a container leads to files
    of the host.
    """

    def __init__(self, path: str, root: str = "") -> None:
        self.path = root + path
        self._fd = _open_below(root, path) if root else os.open(path, _OPEN)
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


def private_folders(process: str, root: str) -> list[str]:
    """The same places in the mounts of a process (its folder in /proc) whose root is `root`, of whatever user.

    Only what is on a tmpfs there is opened: a file system of somebody's own making could keep us waiting for ever.
    """
    try:
        with open(f"{process}/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            mounts = file.read(1 << 20)
    except OSError:
        return []
    found = []
    chosen = os.environ.get("AIDIAG_DIR")
    if chosen and is_tmpfs(mounts, chosen):
        found.append(chosen)
    for parent, prefix in PARENTS:
        if not is_tmpfs(mounts, parent):
            continue
        try:
            fd = _open_below(root, parent)
        except OSError:
            continue
        try:
            names = os.listdir(fd)[:NAMES_CAP]
        finally:
            os.close(fd)
        found += [f"{parent}/{name}" for name in sorted(names) if _is_users(name, prefix)]
    return found


def is_tmpfs(mountinfo: str, path: str) -> bool:
    """Whether a path lies on a tmpfs by a process's table of mounts (proc(5), mountinfo): the longest mount point that
    holds it decides, of equal ones the last.
    """
    best, kind = "", ""
    for line in mountinfo.splitlines():
        before, separator, after = line.partition(" - ")
        fields = before.split(" ")
        if not separator or len(fields) < 5:
            continue
        point = _MOUNT_ESCAPE.sub(lambda match: chr(int(match[1], 8)), fields[4])
        if (path == point or path.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
            best, kind = point, after.split(" ")[0]
    return kind == "tmpfs"


def _is_users(name: str, prefix: str) -> bool:
    return name.startswith(prefix) and name.removeprefix(prefix).isdecimal()


def _open_below(root: str, path: str) -> int:
    """Open a folder step by step, following no link after `root`."""
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in path.strip("/").split("/"):
        try:
            deeper = os.open(part, _OPEN, dir_fd=fd)
        finally:
            os.close(fd)
        fd = deeper
    return fd
