"""What control groups allow and count: memory, OOM kills, CPU quota.

Sources: the kernel's Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst, scheduler/sched-bwc.rst.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from aidiag.collectors.process.cgroup import UNIFIED, CgroupMount, Membership, folders

NO_LIMIT_V1 = 1 << 62
"""Version 1 writes "no limit" as the largest multiple of a page that fits 63 bits."""

_NUMBER = re.compile(r"-?[0-9]{1,20}")


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Memory of the cgroup that is nearest to its limit, among a process's own and those above it.

    `limit_bytes` is None where none of them has a limit: then `used_bytes` is that of the process's own cgroup.
    `used_bytes` is without page cache that the kernel can drop at once (the inactive part).
    `oom_kills` counts kills in the process's own cgroup (version 2: and below it), None where that cannot be read.
    """

    folder: str
    limit_bytes: int | None
    used_bytes: int
    oom_kills: int | None = None


@dataclass(frozen=True, slots=True)
class CpuUse:
    """The tightest CPU quota above a process in CPUs, None for no quota, and how long it has stopped the cgroup."""

    quota_cpus: float | None
    throttled_seconds: float | None


class CgroupLimits:
    """Reads limits through `text`, a function from a path to the text of the file that raises OSError."""

    def __init__(self, text: Callable[[str], str], mounts: tuple[CgroupMount, ...]) -> None:
        self._text, self._mounts = text, mounts

    def memory(self, membership: Membership) -> MemoryUse | None:
        """None where no memory cgroup of the process can be read."""
        return self._memory(
            folders(self._mounts, membership, UNIFIED),
            ("memory.max", "memory.current", "inactive_file", "memory.events"),
        ) or self._memory(
            folders(self._mounts, membership, "memory"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "memory.oom_control"),
        )

    def cpu(self, membership: Membership) -> CpuUse | None:
        """None where no CPU cgroup of the process can be read."""
        uses = [
            *map(self._cpu_v2, folders(self._mounts, membership, UNIFIED)),
            *map(self._cpu_v1, folders(self._mounts, membership, "cpu")),
        ]
        return min((use for use in uses if use), key=lambda use: use.quota_cpus or float("inf"), default=None)

    def _memory(self, levels: list[str], names: tuple[str, str, str, str]) -> MemoryUse | None:
        limit_name, used_name, inactive_key, kills_name = names
        own: MemoryUse | None = None
        nearest: MemoryUse | None = None
        for folder in levels:
            limit = self._number(folder, limit_name)
            if limit is not None and limit >= NO_LIMIT_V1:
                limit = None
            if limit is None and own:
                continue
            used = self._number(folder, used_name)
            if used is None:  # the root of version 2 has no such file
                continue
            inactive = self._counts(folder, "memory.stat").get(inactive_key, 0)
            use = MemoryUse(folder, limit, max(0, used - inactive))
            own = own or replace(use, oom_kills=self._counts(folder, kills_name).get("oom_kill"))
            if nearest is None or _headroom(use) < _headroom(nearest):
                nearest = use
        return replace(nearest, oom_kills=own.oom_kills) if own and nearest else None

    def _cpu_v2(self, folder: str) -> CpuUse | None:
        """`cpu.max` is `quota period` in microseconds, or `max period`."""
        quota, _, period = self._word(folder, "cpu.max").partition(" ")
        throttled = self._counts(folder, "cpu.stat").get("throttled_usec")
        if not quota and throttled is None:
            return None
        return CpuUse(_share(_number(quota), _number(period)), None if throttled is None else throttled / 1e6)

    def _cpu_v1(self, folder: str) -> CpuUse | None:
        quota = self._number(folder, "cpu.cfs_quota_us")
        throttled = self._counts(folder, "cpu.stat").get("throttled_time")
        if quota is None and throttled is None:
            return None
        period = self._number(folder, "cpu.cfs_period_us")
        return CpuUse(_share(quota, period), None if throttled is None else throttled / 1e9)

    def _word(self, folder: str, name: str) -> str:
        try:
            return self._text(f"{folder}/{name}").strip()
        except OSError:
            return ""

    def _number(self, folder: str, name: str) -> int | None:
        return _number(self._word(folder, name))

    def _counts(self, folder: str, name: str) -> dict[str, int]:
        """A file of `name number` lines."""
        lines = (line.partition(" ") for line in self._word(folder, name).splitlines())
        return {key: number for key, _, value in lines if (number := _number(value)) is not None}


def _headroom(use: MemoryUse) -> float:
    return float("inf") if use.limit_bytes is None else use.limit_bytes - use.used_bytes


def _share(quota: int | None, period: int | None) -> float | None:
    """CPUs that a quota allows; version 1 writes -1 for no quota."""
    return quota / period if quota is not None and quota > 0 and period is not None and period > 0 else None


def _number(text: str) -> int | None:
    return int(text) if _NUMBER.fullmatch(text.strip()) else None
