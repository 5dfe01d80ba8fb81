"""The files of this machine. What may not answer (foreign file systems, RDMA devices) is touched in helpers only."""

# Paths are text here, and Path objects would double the cost of a small read.
# ruff: noqa: PTH110, PTH115, PTH208

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from aidiag.collectors.answers import FileSystemUse
from aidiag.collectors.helper import Helper
from aidiag.collectors.helper.pool import HelperPool
from aidiag.collectors.mounts import Mount, mount_of, parse_mounts
from aidiag.collectors.recorded.tree import LINKS_LIMIT, read_bytes

CALLS = Path(__file__).resolve().with_name("foreign_calls.py")
RDMA_CLASS = "/sys/class/infiniband/"
MOUNTS_FRESH_SECONDS = 1.0
THROUGH_PROCESS = re.compile(r"/(?:\d+|self|thread-self)(?:/task/\d+)?/(root|cwd|exe|fd/\d+|map_files/[^/]+)(?=/|$)")
"""Links below /proc that jump to whatever file system a process is in (proc(5)): to read such a link touches nothing,
to follow it does.
"""


class LiveFiles:
    """Reads below `root`, with /proc and /sys taken from `proc` and `sys` (a container may have the host's elsewhere).

    Methods take absolute paths of the host. They raise OSError, and HungError where a foreign file system or a device
    does not answer.
    """

    def __init__(self, root: str, proc: str, sys: str, helpers: HelperPool) -> None:
        self._root, self._proc, self._sys = root.rstrip("/"), proc.rstrip("/"), sys.rstrip("/")
        self._helpers = helpers
        self._mounts: tuple[Mount, ...] = ()
        self._mounts_read = float("-inf")

    def read(self, path: str, limit_bytes: int) -> bytes:
        """The first bytes of a file."""
        place, resource = self._place(path)
        if resource:
            return str(self._ask(resource, "read", place, limit_bytes)).encode("latin-1")
        descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            return read_bytes(descriptor, limit_bytes)
        finally:
            os.close(descriptor)

    def read_all(self, paths: Iterable[str], limit_bytes: int) -> Mapping[str, bytes | OSError]:
        """Each file, or why it cannot be read. Those of one foreign resource are read in one go."""
        found: dict[str, bytes | OSError] = {}
        together: dict[str, list[tuple[str, str]]] = {}
        for path in paths:
            place, resource = self._place(path)
            if resource:
                together.setdefault(resource, []).append((path, place))
                continue
            try:
                found[path] = self.read(path, limit_bytes)
            except OSError as error:
                found[path] = error
        for resource, both in together.items():
            answers = self._ask(resource, "read_all", [place for _, place in both], limit_bytes)
            for (path, place), answer in zip(both, answers, strict=True):
                try:
                    found[path] = str(opened(answer, place)).encode("latin-1")
                except OSError as error:
                    found[path] = error
        return found

    def entries(self, path: str) -> list[str]:
        """The sorted names in a folder."""
        place, resource = self._place(path)
        return sorted(self._ask(resource, "listdir", place) if resource else os.listdir(place))

    def link(self, path: str) -> str:
        """Where a symbolic link points."""
        place, resource = self._place(path, follow_last=False)
        return str(self._ask(resource, "readlink", place)) if resource else os.readlink(place)

    def exists(self, path: str) -> bool:
        """Whether a path is there."""
        try:
            place, resource = self._place(path)
            return bool(self._ask(resource, "exists", place) if resource else os.path.exists(place))
        except OSError:
            return False

    def statvfs(self, mount: str) -> FileSystemUse:
        """The use of a mounted file system."""
        place, resource = self._place(mount)
        answer = os.statvfs_result(self._ask(resource, "statvfs", place)) if resource else os.statvfs(place)
        return FileSystemUse(
            size_bytes=answer.f_blocks * answer.f_frsize,
            free_bytes=answer.f_bfree * answer.f_frsize,
            available_bytes=answer.f_bavail * answer.f_frsize,
            inodes=answer.f_files,
            inodes_available=answer.f_favail,
            read_only=bool(answer.f_flag & os.ST_RDONLY),
        )

    def resolve(self, name: str) -> list[str]:
        """The addresses of a host name, asked in a helper: a dead name server blocks for minutes."""
        return list(self._ask(f"the name {name}", "getaddrinfo", name))

    # -- what may block ---------------------------------------------------------------------------------------------

    def _place(self, path: str, *, follow_last: bool = True) -> tuple[str, str]:
        """Where a path of the host is from here, and the resource that it may block on, empty where it will not."""
        if path.startswith("/proc/"):
            place = self._proc + path[5:]
        elif path.startswith("/sys/"):
            place = self._sys + path[4:]
            if path.startswith(RDMA_CLASS):  # a stuck firmware command blocks whoever reads a counter
                return place, path[len(RDMA_CLASS) :].partition("/")[0]
        else:
            place = self._root + path
        if place.startswith("/sys/"):
            return place, ""
        if place.startswith("/proc/"):
            jump = THROUGH_PROCESS.search(place)
            if jump is None or (jump.end() == len(place) and not follow_last):
                return place, ""
        return place, self._foreign(place, follow_last) or ""

    def _foreign(self, place: str, follow_last: bool) -> str | None:
        """The foreign mount that a path leads into, found without touching it.

        Below the root of another process its own mounts count (`root` is the path up to there, empty for ours).
        """
        mounts = self._own_mounts()
        if not any(mount.may_block for mount in mounts) and not THROUGH_PROCESS.search(place):
            return None
        root, here, links = "", "", 0
        parts = place.split("/")[::-1]
        while parts:
            part = parts.pop()
            if part in ("", "."):
                continue
            if part == "..":
                here = here.rpartition("/")[0] if here != root else here
                continue
            candidate = f"{here}/{part}"
            mount = mount_of(candidate[len(root) :], mounts)
            if mount and mount.may_block:
                return self._name(mount)
            if not parts and not follow_last:
                break
            if mount and mount.kind == "proc" and (jump := THROUGH_PROCESS.search(candidate)):
                if jump[1] != "root":
                    return candidate
                root = here = candidate
                mounts = _mounts_of(os.path.dirname(candidate))  # noqa: PTH120
                top = mount_of("/", mounts)
                if top is None or top.may_block:
                    return self._name(top) if top else candidate
                continue
            try:
                if not stat.S_ISLNK(os.lstat(candidate).st_mode):
                    here = candidate
                    continue
                target = os.readlink(candidate)
            except OSError:
                return None  # whoever uses the path gets the error
            links += 1
            if links > LINKS_LIMIT:
                return None
            if target.startswith("/"):  # from our own root, wherever the link lies
                root, here, mounts = "", "", self._own_mounts()
            parts += target.split("/")[::-1]
        return None

    def _name(self, mount: Mount) -> str:
        """How a mount is called as a resource: the same for all processes that have it in the same place."""
        return mount.point if mount in self._own_mounts() else f"{mount.source} at {mount.point}"

    def _own_mounts(self) -> tuple[Mount, ...]:
        """The mounts of this process, read again after a moment."""
        now = time.monotonic()
        if now - self._mounts_read > MOUNTS_FRESH_SECONDS:
            self._mounts, self._mounts_read = _mounts_of("/proc/self"), now
        return self._mounts

    def _ask(self, resource: str, verb: str, *arguments: object) -> Any:
        return opened(self._helpers.ask(resource, verb, *arguments), str(arguments[0]))


def make_helpers(deadline_seconds: float = 2.0) -> HelperPool:
    """The helpers that make the calls of foreign_calls.py."""
    return HelperPool(lambda: Helper(CALLS, name="file system", deadline_seconds=deadline_seconds, packages=False))


def _mounts_of(process: str) -> tuple[Mount, ...]:
    """The mounts that a process sees (its folder in /proc), none where that is not told."""
    try:
        return parse_mounts(Path(f"{process}/mountinfo").read_bytes().decode(errors="surrogateescape"))
    except OSError:
        return ()


def opened(answer: Mapping[str, Any], what: str) -> Any:
    """The value of an answer of foreign_calls.py. Raises the OSError that it stands for."""
    if "value" in answer:
        return answer["value"]
    if answer.get("kind") == "resolver":
        import socket

        raise socket.gaierror(int(answer["errno"]), str(answer["text"]))
    raise OSError(int(answer["errno"]), str(answer["text"]), what)
