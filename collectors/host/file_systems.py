"""The mounted file systems that a job may fill or wait for: how full they are, and whether they answer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence

from aidiag.collectors.errors import HungError
from aidiag.collectors.mounts import Mount, mount_of
from aidiag.collectors.node import Node, printable
from aidiag.collectors.observation import Absent, Sample, labels
from aidiag.collectors.signal import Signal
from aidiag.collectors.subject import Subject

SIGNALS: tuple[Signal, ...] = (
    Signal("host_filesystem_size_bytes", "gauge", "bytes", "host", "Size of a mounted file system", labels=("mount",)),
    Signal(
        "host_filesystem_available_bytes",
        "gauge",
        "bytes",
        "host",
        "Free space for users of a mounted file system",
        labels=("mount",),
    ),
    Signal("host_filesystem_inodes", "gauge", "count", "host", "Inodes of a mounted file system", labels=("mount",)),
    Signal(
        "host_filesystem_inodes_available",
        "gauge",
        "count",
        "host",
        "Free inodes of a mounted file system",
        labels=("mount",),
    ),
    Signal(
        "host_filesystem_read_only",
        "gauge",
        "count",
        "host",
        "1 while a mounted file system cannot be written",
        labels=("mount",),
    ),
    Signal(
        "host_filesystem_call_pending_seconds",
        "gauge",
        "seconds",
        "host",
        "How long statvfs(3) of a mounted file system has not returned, 0 when it answers",
        labels=("mount",),
    ),
)

USE_SIGNALS = tuple(signal.name for signal in SIGNALS if signal.name != "host_filesystem_call_pending_seconds")

MOUNTS_LIMIT = 32
SYSTEM_FOLDERS = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/snap", "/sys", "/usr",
    "/var/lib/containerd", "/var/lib/containers", "/var/lib/docker", "/var/lib/kubelet", "/var/lib/snapd", "/var/snap",
)  # fmt: skip
"""Nobody keeps data below these: containers have single files of the host mounted there."""
NO_DATA_KINDS = frozenset({
    "erofs", "fuse.gvfsd-fuse", "fuse.lxcfs", "fuse.portal", "iso9660", "overlay", "ramfs", "rootfs", "squashfs", "tmpfs",
})  # fmt: skip
"""Images, layers of containers and memory: told of only where a path that matters lies in them."""


def worth_telling(mounts: Sequence[Mount], paths: Iterable[str]) -> list[Mount]:
    """The mounts that hold `paths`, then those of data, each file system once."""
    found: dict[str, Mount] = {}
    for path in paths:
        mount = mount_of(path, mounts)
        if mount and mount.stores_files:
            found.setdefault(mount.point, mount)
    devices = {mount.device for mount in found.values()}
    for mount in sorted(mounts, key=lambda mount: len(mount.point)):
        if mount.device in devices or not _holds_data(mount):
            continue
        if mount_of(mount.point, mounts) is not mount:  # another one is mounted on top
            continue
        devices.add(mount.device)
        found.setdefault(mount.point, mount)
    return list(found.values())[:MOUNTS_LIMIT]


def _holds_data(mount: Mount) -> bool:
    below = any(mount.point == folder or mount.point.startswith(f"{folder}/") for folder in SYSTEM_FOLDERS)
    return mount.stores_files and mount.kind not in NO_DATA_KINDS and not below


def paths_of_job(node: Node) -> list[str]:
    """Where a job writes to: the root, temporary files, the working folder, the home."""
    paths = ["/", "/tmp"]
    with contextlib.suppress(OSError):
        paths.append(node.link("/proc/self/cwd"))
    with contextlib.suppress(OSError):
        environ = node.environ()
        paths += [environ[name] for name in ("HOME", "TMPDIR") if environ.get(name, "").startswith("/")]
    return paths


def observe(node: Node, mounts: Sequence[Mount], host: Subject, time: float) -> Iterator[Sample | Absent]:
    """How full the file systems are that are worth telling of; one that does not answer says for how long."""
    if not mounts:
        yield from (Absent(signal, host, "/proc/self/mountinfo cannot be read") for signal in USE_SIGNALS)
    for mount in worth_telling(mounts, paths_of_job(node)):
        label = labels(mount=printable(mount.point))
        pending, reason = 0.0, ""
        try:
            use = node.statvfs(mount.point)
        except HungError as error:
            pending, reason = max(error.seconds, 0.001), error.reason  # 0 means that it answers
        except OSError as error:
            reason = f"statvfs({printable(mount.point)}): {error.strerror}"
        else:
            values = (use.size_bytes, use.available_bytes, use.inodes, use.inodes_available, use.read_only)
            for signal, value in zip(USE_SIGNALS, values, strict=True):
                yield Sample(signal, host, float(value), time, label)
        if reason:
            yield from (Absent(signal, host, reason, labels=label) for signal in USE_SIGNALS)
        yield Sample("host_filesystem_call_pending_seconds", host, pending, time, label)
