"""The mount table, and which file systems may block whoever touches them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

LOCAL_KINDS = frozenset({
    "bcachefs", "btrfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "iso9660", "jfs", "nilfs2", "ntfs3", "overlay",
    "ramfs", "reiserfs", "rootfs", "squashfs", "tmpfs", "ufs", "vfat", "xfs", "zfs",
})  # fmt: skip
"""File systems on the host's own devices or in its memory, which answer statfs(2) without asking anyone."""

PSEUDO_KINDS = frozenset({
    "autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs",
    "fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "rpc_pipefs", "securityfs", "selinuxfs", "sysfs", "tracefs",
})  # fmt: skip
"""Interfaces to the kernel, which store nothing."""

_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A line of /proc/self/mountinfo (proc_pid_mountinfo(5)).

    `point` is where it is mounted, `root` which folder of the file system stands there, `device` its major:minor,
    `kind` the file system type, `source` what was mounted, `options` those of the mount and of the file system.
    """

    point: str
    root: str
    device: str
    kind: str
    source: str
    options: frozenset[str]

    @property
    def may_block(self) -> bool:
        """Whether a call about it may wait for another machine or another process."""
        return self.kind == "autofs" or self.kind not in LOCAL_KINDS | PSEUDO_KINDS

    @property
    def stores_files(self) -> bool:
        """Whether people keep files in it."""
        return self.kind not in PSEUDO_KINDS


def parse_mounts(mountinfo: str) -> tuple[Mount, ...]:
    """The mounts in /proc/PID/mountinfo in their order; lines that are none are left out."""
    mounts = []
    for line in mountinfo.splitlines():
        before, dash, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        if not dash or len(fields) < 6 or len(kind) < 2:
            continue
        options = frozenset(fields[5].split(",")) | (frozenset(kind[2].split(",")) if len(kind) > 2 else frozenset())
        mounts.append(Mount(_plain(fields[4]), _plain(fields[3]), fields[2], kind[0], _plain(kind[1]), options))
    return tuple(mounts)


def mount_of(path: str, mounts: Iterable[Mount]) -> Mount | None:
    """The mount that a path without symbolic links lies in: the longest point, of equals the one mounted last."""
    best: Mount | None = None
    for mount in mounts:
        point = mount.point.rstrip("/")
        if (path == mount.point or path.startswith(f"{point}/")) and (not best or len(mount.point) >= len(best.point)):
            best = mount
    return best


def _plain(text: str) -> str:
    """Blanks, tabs, line ends and backslashes stand as octal numbers."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8) & 0xFF), text)
