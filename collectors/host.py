"""CPU, memory, /dev/shm, disks and limits of the host."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from aidiag.collectors.collector import Context
from aidiag.collectors.observation import Observation
from aidiag.collectors.signal import EventKind, Signal

SIGNALS: tuple[Signal, ...] = (
    Signal("host_info", "info", "", "host", "What the host runs", labels=("kernel", "machine")),
    Signal("host_cpus", "gauge", "count", "host", "CPUs online"),
    Signal("host_cpus_allowed", "gauge", "count", "host", "CPUs that the job may use, by affinity and cgroup quota"),
    Signal("host_cpu_seconds_total", "counter", "seconds", "host", "CPU time by mode", labels=("mode",)),
    Signal(
        "host_memory_total_bytes",
        "gauge",
        "bytes",
        "host",
        "Memory of the host, or of the container where that is less",
    ),
    Signal("host_memory_available_bytes", "gauge", "bytes", "host", "Memory that can be had without swapping"),
    Signal("host_swap_used_bytes", "gauge", "bytes", "host", "Swap in use"),
    Signal("host_shm_size_bytes", "gauge", "bytes", "host", "Size of /dev/shm"),
    Signal("host_shm_available_bytes", "gauge", "bytes", "host", "Free space in /dev/shm"),
    Signal("host_filesystem_size_bytes", "gauge", "bytes", "host", "Size of a mounted file system", labels=("mount",)),
    Signal(
        "host_filesystem_available_bytes",
        "gauge",
        "bytes",
        "host",
        "Free space for users of a mounted file system",
        labels=("mount",),
    ),
    Signal("host_limit_open_files", "gauge", "count", "host", "Soft limit of open file descriptors of the job's shell"),
    Signal("host_limit_memlock_bytes", "gauge", "bytes", "host", "Soft limit of locked memory of the job's shell"),
)

EVENTS: tuple[EventKind, ...] = ()


class HostCollector:
    """CPU, memory, /dev/shm, disks and limits of the host."""

    name: ClassVar[str] = "host"
    interval_seconds: ClassVar[float] = 5.0
    signals: ClassVar[tuple[Signal, ...]] = SIGNALS
    events: ClassVar[tuple[EventKind, ...]] = EVENTS

    def __init__(self, context: Context) -> None:
        self._context = context

    def collect(self) -> Iterable[Observation]:
        """Read the source once."""
        return ()
