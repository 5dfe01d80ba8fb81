"""CPU, memory, /dev/shm, disks and limits of the host."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar

from aidiag.collectors import subject
from aidiag.collectors.collector import Collector, Context
from aidiag.collectors.errors import HungError
from aidiag.collectors.host import file_systems
from aidiag.collectors.host.proc_files import parse_cpu_seconds, parse_meminfo, parse_stall_seconds, parse_vmstat
from aidiag.collectors.mounts import parse_mounts
from aidiag.collectors.node import printable
from aidiag.collectors.observation import Absent, Observation, Sample, labels
from aidiag.collectors.process.cgroup import parse_membership
from aidiag.collectors.process.cgroup import parse_mounts as parse_cgroup_mounts
from aidiag.collectors.process.cgroup_limits import CgroupLimits, CpuUse, MemoryUse
from aidiag.collectors.signal import EventKind, Signal

SIGNALS: tuple[Signal, ...] = (
    Signal("host_info", "info", "", "host", "What the host runs", labels=("kernel", "machine")),
    Signal("host_cpus", "gauge", "count", "host", "CPUs online"),
    Signal("host_cpus_allowed", "gauge", "count", "host", "CPUs that the job may use, by affinity and cgroup quota"),
    Signal("host_cpu_seconds_total", "counter", "seconds", "host", "CPU time by mode", labels=("mode",)),
    Signal(
        "host_stall_seconds_total",
        "counter",
        "seconds",
        "host",
        "Time in which at least one task waited for a resource: cpu, memory or io",
        labels=("resource",),
    ),
    Signal(
        "host_memory_total_bytes",
        "gauge",
        "bytes",
        "host",
        "Memory of the host, or of the container where that is less",
    ),
    Signal("host_memory_available_bytes", "gauge", "bytes", "host", "Memory that can be had without swapping"),
    Signal("host_swap_used_bytes", "gauge", "bytes", "host", "Swap in use"),
    Signal("host_oom_kills_total", "counter", "count", "host", "Processes that the kernel killed to get memory back"),
    Signal("host_shm_size_bytes", "gauge", "bytes", "host", "Size of /dev/shm"),
    Signal("host_shm_available_bytes", "gauge", "bytes", "host", "Free space in /dev/shm"),
    *file_systems.SIGNALS,
    Signal(
        "host_limit_open_files",
        "gauge",
        "count",
        "host",
        "Soft limit of open file descriptors of the job's shell, infinite where there is none",
    ),
    Signal(
        "host_limit_memlock_bytes",
        "gauge",
        "bytes",
        "host",
        "Soft limit of locked memory of the job's shell, infinite where there is none",
    ),
)

EVENTS: tuple[EventKind, ...] = ()

STALL_RESOURCES = ("cpu", "memory", "io")


class HostCollector(Collector):
    """CPU, memory, /dev/shm, disks and limits of the host."""

    name: ClassVar[str] = "host"
    interval_seconds: ClassVar[float] = 5.0
    signals: ClassVar[tuple[Signal, ...]] = SIGNALS
    events: ClassVar[tuple[EventKind, ...]] = EVENTS

    def __init__(self, context: Context) -> None:
        self._node, self._clock = context.node, context.clock
        self._host = subject.host(context.node.name)
        self._now = 0.0

    def collect(self) -> Iterable[Observation]:
        """Read the host once. What cannot be read is absent and takes nothing else with it."""
        self._now = self._clock.monotonic()
        mountinfo = self._table("/proc/self/mountinfo")
        memory, cpu = self._cgroup(mountinfo)
        parts: tuple[tuple[Callable[[], Iterator[Observation]], tuple[str, ...]], ...] = (
            (self._kernel, ("host_info",)),
            (lambda: self._cpus(cpu), ("host_cpus", "host_cpus_allowed")),
            (self._cpu_seconds, ("host_cpu_seconds_total",)),
            (self._stalls, ()),
            (lambda: self._memory(memory), ("host_memory_total_bytes", "host_memory_available_bytes")),
            (self._oom_kills, ()),
            (self._shared_memory, ("host_shm_size_bytes", "host_shm_available_bytes")),
            (self._limits, ("host_limit_open_files", "host_limit_memlock_bytes")),
        )
        for part, signals in parts:
            try:
                yield from part()
            except OSError as error:
                reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
                yield from (Absent(signal, self._host, reason) for signal in signals)
            except ValueError as error:
                yield from (Absent(signal, self._host, str(error)) for signal in signals)
            except HungError as error:
                yield from (Absent(signal, self._host, error.reason) for signal in signals)
        yield from file_systems.observe(self._node, parse_mounts(mountinfo), self._host, self._now)

    def _sample(self, signal: str, value: float, **more: str) -> Sample:
        return Sample(signal, self._host, float(value), self._now, labels(**more))

    def _table(self, path: str) -> str:
        try:
            return self._node.read(path).decode(errors="surrogateescape")
        except OSError:
            return ""

    def _cgroup(self, mountinfo: str) -> tuple[MemoryUse | None, CpuUse | None]:
        """What the cgroups above this process allow, None where they cannot be read."""
        membership = parse_membership(self._table("/proc/self/cgroup"))
        cgroups = CgroupLimits(self._node.text, parse_cgroup_mounts(mountinfo))
        return cgroups.memory(membership), cgroups.cpu(membership)

    def _kernel(self) -> Iterator[Observation]:
        kernel = self._node.kernel()
        yield self._sample("host_info", 1, kernel=printable(kernel.release), machine=printable(kernel.machine))

    def _cpus(self, cpu: CpuUse | None) -> Iterator[Observation]:
        yield self._sample("host_cpus", self._node.sysconf("SC_NPROCESSORS_ONLN"))
        quota = cpu.quota_cpus if cpu else None
        yield self._sample("host_cpus_allowed", min(len(self._node.affinity()), quota or math.inf))

    def _cpu_seconds(self) -> Iterator[Observation]:
        for mode, seconds in parse_cpu_seconds(self._node.text("/proc/stat")).items():
            yield self._sample("host_cpu_seconds_total", seconds, mode=mode)

    def _stalls(self) -> Iterator[Observation]:
        """Kernels without pressure accounting have no such files, and some refuse to open them."""
        for resource in STALL_RESOURCES:
            seconds = parse_stall_seconds(self._node.text(f"/proc/pressure/{resource}"))
            yield self._sample("host_stall_seconds_total", seconds, resource=resource)

    def _memory(self, container: MemoryUse | None) -> Iterator[Observation]:
        meminfo = parse_meminfo(self._node.text("/proc/meminfo"))
        try:
            total, available = meminfo["MemTotal"], meminfo["MemAvailable"]
        except KeyError as missing:
            raise ValueError(f"/proc/meminfo has no {missing.args[0]}") from None
        limit = container.limit_bytes if container else None
        if container and limit is not None and limit < total:
            total, available = limit, min(available, max(0, limit - container.used_bytes))
        yield self._sample("host_memory_total_bytes", total)
        yield self._sample("host_memory_available_bytes", available)
        if "SwapTotal" in meminfo and "SwapFree" in meminfo:
            yield self._sample("host_swap_used_bytes", meminfo["SwapTotal"] - meminfo["SwapFree"])

    def _oom_kills(self) -> Iterator[Observation]:
        kills = parse_vmstat(self._node.text("/proc/vmstat")).get("oom_kill")
        if kills is not None:
            yield self._sample("host_oom_kills_total", kills)

    def _shared_memory(self) -> Iterator[Observation]:
        use = self._node.statvfs("/dev/shm")
        yield self._sample("host_shm_size_bytes", use.size_bytes)
        yield self._sample("host_shm_available_bytes", use.available_bytes)

    def _limits(self) -> Iterator[Observation]:
        limits = self._node.limits()
        for signal, name in (
            ("host_limit_open_files", "RLIMIT_NOFILE"),
            ("host_limit_memlock_bytes", "RLIMIT_MEMLOCK"),
        ):
            if name in limits:
                soft = limits[name].soft
                yield self._sample(signal, math.inf if soft is None else soft)
            else:
                yield Absent(signal, self._host, f"getrlimit({name}) is not known")
