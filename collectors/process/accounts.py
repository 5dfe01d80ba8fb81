"""CPU time and memory of a rank together with the processes that it started."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from aidiag.collectors.process.files import ProcessStat


@dataclass(frozen=True, slots=True)
class Usage:
    """What a rank and its children use. Resident memory counts pages that they share once for each of them."""

    cpu_seconds: float
    resident_bytes: int
    workers_alive: int
    workers_cpu_seconds: float


@dataclass(slots=True)
class Account:
    """Adds up one rank. Both CPU times only grow, also when children end and others begin."""

    _cpu_seconds: float = 0.0
    _workers_cpu_seconds: float = 0.0
    _worker_times: dict[tuple[int, int], float] = field(default_factory=dict)

    def add(self, rank: ProcessStat, children: Iterable[ProcessStat], is_worker: Callable[[int], bool]) -> Usage:
        """One reading: the rank, its children that are there now, and which of these are loader workers."""
        cpu = rank.cpu_seconds + rank.children_cpu_seconds
        resident, alive = rank.resident_bytes, 0
        times: dict[tuple[int, int], float] = {}
        for child in children:
            cpu += child.cpu_seconds + child.children_cpu_seconds
            resident += child.resident_bytes
            if is_worker(child.pid):
                alive += not child.ended
                process = (child.pid, child.start_ticks)
                times[process] = child.cpu_seconds + child.children_cpu_seconds
                self._workers_cpu_seconds += max(0.0, times[process] - self._worker_times.get(process, 0.0))
        self._worker_times = times
        self._cpu_seconds = max(self._cpu_seconds, cpu)  # times of children that nobody waits for are lost
        return Usage(self._cpu_seconds, resident, alive, self._workers_cpu_seconds)
