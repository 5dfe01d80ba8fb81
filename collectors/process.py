"""The processes of the ranks: life and death, CPU, memory, cgroup limits, loader workers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from aidiag.collectors.collector import Context
from aidiag.collectors.observation import Observation
from aidiag.collectors.signal import EventKind, Signal

SIGNALS: tuple[Signal, ...] = (
    Signal("rank_exit_code", "gauge", "code", "rank", "Exit code after the end, -N for signal N", max_age_seconds=1e9),
    Signal("rank_process_state", "text", "", "rank", "running, sleeping, disk, stopped, zombie or gone"),
    Signal("rank_resident_memory_bytes", "gauge", "bytes", "rank", "Resident memory of the rank and its workers"),
    Signal("rank_cpu_seconds_total", "counter", "seconds", "rank", "CPU time of the rank and its workers"),
    Signal("rank_threads", "gauge", "count", "rank", "Threads of the rank's process"),
    Signal("rank_open_files", "gauge", "count", "rank", "Open file descriptors of the rank's process"),
    Signal("rank_open_files_limit", "gauge", "count", "rank", "Soft limit of open file descriptors"),
    Signal("rank_cpus_allowed", "gauge", "count", "rank", "CPUs that the rank may use, by affinity and cgroup quota"),
    Signal("rank_loader_workers_alive", "gauge", "count", "rank", "Loader worker processes alive"),
    Signal("rank_loader_workers_cpu_seconds_total", "counter", "seconds", "rank", "CPU time of the loader workers"),
    Signal("rank_memory_limit_bytes", "gauge", "bytes", "rank", "Memory limit of the rank's cgroup"),
    Signal(
        "rank_memory_used_bytes",
        "gauge",
        "bytes",
        "rank",
        "Memory that the rank's cgroup uses, without page cache that can be dropped",
    ),
    Signal("rank_oom_kills_total", "counter", "count", "rank", "Kills by the kernel's OOM killer in the rank's cgroup"),
    Signal(
        "rank_cpu_throttled_seconds_total",
        "counter",
        "seconds",
        "rank",
        "Time that the CPU quota stopped the rank's cgroup",
    ),
)

EVENTS: tuple[EventKind, ...] = (
    EventKind("rank_exited", "rank", "The process of a rank ended", ("exit_code", "signal", "pid", "during_training")),
    EventKind(
        "loader_worker_exited",
        "rank",
        "A loader worker process ended while its rank lived",
        ("pid", "exit_code", "signal"),
    ),
)


class ProcessCollector:
    """The processes of the ranks: life and death, CPU, memory, cgroup limits, loader workers."""

    name: ClassVar[str] = "process"
    interval_seconds: ClassVar[float] = 2.0
    signals: ClassVar[tuple[Signal, ...]] = SIGNALS
    events: ClassVar[tuple[EventKind, ...]] = EVENTS

    def __init__(self, context: Context) -> None:
        self._context = context

    def collect(self) -> Iterable[Observation]:
        """Read the source once."""
        return ()
