"""Which control groups a process is in, and where their files are (cgroups(7), both versions)."""

from __future__ import annotations

from dataclasses import dataclass

UNIFIED = ""
"""The name under which the one hierarchy of version 2 stands among the controllers of version 1."""


@dataclass(frozen=True, slots=True)
class CgroupMount:
    """A mounted hierarchy: its folder, and which part of the hierarchy stands there (`/` or a container's part)."""

    folder: str
    root: str
    controllers: frozenset[str]


@dataclass(frozen=True, slots=True)
class Membership:
    """The cgroup of a process in each hierarchy, by controller; version 2 by UNIFIED."""

    paths: tuple[tuple[str, str], ...] = ()

    def path(self, controller: str) -> str | None:
        """The path of the process's cgroup in the hierarchy of a controller, None where it is in none."""
        return dict(self.paths).get(controller)


def parse_mounts(mountinfo: str) -> tuple[CgroupMount, ...]:
    """The cgroup hierarchies in /proc/PID/mountinfo (proc_pid_mountinfo(5))."""
    mounts = []
    for line in mountinfo.splitlines():
        before, dash, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        if not dash or len(fields) < 5 or kind[0] not in ("cgroup", "cgroup2"):
            continue
        options = frozenset(kind[2].split(",")) if len(kind) > 2 else frozenset()
        controllers = frozenset((UNIFIED,)) if kind[0] == "cgroup2" else options - {"rw", "ro"}
        mounts.append(CgroupMount(_unescape(fields[4]), _unescape(fields[3]), controllers))
    return tuple(mounts)


def parse_membership(text: str) -> Membership:
    """Parse /proc/PID/cgroup: `hierarchy:controllers:path` lines, `0::path` for version 2."""
    paths = []
    for line in text.splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            paths += [(controller, parts[2]) for controller in parts[1].split(",")]
    return Membership(tuple(paths))


def folders(mounts: tuple[CgroupMount, ...], membership: Membership, controller: str) -> list[str]:
    """The folders of a process's cgroup and of those above it, up to the root of what is mounted here.

    A cgroup outside the mounted part (another container's, shown as `/../other`) has none.
    """
    path = membership.path(controller)
    mount = next((mount for mount in mounts if controller in mount.controllers), None)
    if path is None or mount is None or ".." in path.split("/"):
        return []
    root = mount.root.rstrip("/")
    if root and (path == root or path.startswith(root + "/")):
        path = path[len(root) :]
    elif root and path != "/":  # "/" is the root of our own cgroup namespace: just what is mounted
        return []
    parts = [part for part in path.split("/") if part]
    return ["/".join([mount.folder.rstrip("/"), *parts[:depth]]) for depth in range(len(parts), -1, -1)]


def _unescape(text: str) -> str:
    """Blanks and the like stand as `\\040` in mountinfo."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text
