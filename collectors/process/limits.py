"""What limits a rank: open files, CPUs, and the memory and CPU quota of its cgroups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from aidiag.collectors.cpus import parse_cpu_list
from aidiag.collectors.node import Node
from aidiag.collectors.observation import Absent, Observation, Sample
from aidiag.collectors.process.cgroup import Membership, parse_membership, parse_mounts
from aidiag.collectors.process.cgroup_limits import CgroupLimits, CpuUse, MemoryUse
from aidiag.collectors.process.files import parse_open_files_limit, parse_status
from aidiag.collectors.process.visible import HIDDEN_REMEDY
from aidiag.collectors.subject import Subject

SLOW_ROUNDS = 5
"""Facts that hardly change or cost much are read at one reading in so many."""


@dataclass(slots=True)
class _Rank:
    """What stays between the readings of one process."""

    membership: Membership | None = None
    cpus: int | None = None
    rounds: int = 0


@dataclass(slots=True)
class _Round:
    """The ranks of this round, and the cgroups already read: ranks of one container share theirs."""

    ranks: set[tuple[int, int]] = field(default_factory=set)
    memory: dict[Membership, MemoryUse | None] = field(default_factory=dict)
    cpu: dict[Membership, CpuUse | None] = field(default_factory=dict)


class RankLimits:
    """Reads limits of ranks from the files of a node. Call `begin` before each round over all ranks."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._cgroups: CgroupLimits | None = None
        self._ranks: dict[tuple[int, int], _Rank] = {}
        self._round = _Round()

    def begin(self) -> None:
        """Forget the cgroups read in the last round, and ranks that were not in it."""
        self._ranks = {process: self._ranks[process] for process in self._round.ranks}
        self._round = _Round()

    def observe(self, subject: Subject, pid: int, start_ticks: int, now: float) -> Iterator[Observation]:
        """The limits of one running rank."""
        rank = self._ranks.setdefault((pid, start_ticks), _Rank())
        self._round.ranks.add((pid, start_ticks))
        if rank.rounds % SLOW_ROUNDS == 0:
            rank.membership = self._membership(pid)
            rank.cpus = self._cpus(pid)
            yield from self._open_files(subject, pid, now)
        rank.rounds += 1
        yield from self._memory(subject, rank.membership, now)
        yield from self._cpu(subject, rank, now)

    def _membership(self, pid: int) -> Membership | None:
        try:
            if self._cgroups is None:
                mountinfo = self._node.read("/proc/self/mountinfo").decode(errors="backslashreplace")
                self._cgroups = CgroupLimits(self._node.text, parse_mounts(mountinfo))
            return parse_membership(self._node.text(f"/proc/{pid}/cgroup"))
        except OSError:
            return None

    def _cpus(self, pid: int) -> int | None:
        try:
            return len(parse_cpu_list(parse_status(self._node.read(f"/proc/{pid}/status"))["Cpus_allowed_list"]))
        except (OSError, KeyError, ValueError):
            return None

    def _open_files(self, subject: Subject, pid: int, now: float) -> Iterator[Observation]:
        try:
            yield Sample("rank_open_files", subject, float(len(self._node.entries(f"/proc/{pid}/fd"))), now)
        except PermissionError as error:
            yield Absent("rank_open_files", subject, f"/proc/{pid}/fd: {error.strerror}", HIDDEN_REMEDY)
        except OSError:
            return  # it ended
        try:
            limit = parse_open_files_limit(self._node.read(f"/proc/{pid}/limits"))
        except (OSError, ValueError):
            return
        if limit is not None:
            yield Sample("rank_open_files_limit", subject, float(limit), now)

    def _memory(self, subject: Subject, membership: Membership | None, now: float) -> Iterator[Observation]:
        seen = self._round.memory
        if membership is not None and membership not in seen:
            seen[membership] = self._cgroups.memory(membership) if self._cgroups else None
        use = seen.get(membership) if membership is not None else None
        if use is None:
            yield Absent("rank_memory_used_bytes", subject, "no memory cgroup of the rank can be read", expected=False)
            return
        yield Sample("rank_memory_used_bytes", subject, float(use.used_bytes), now)
        if use.limit_bytes is None:
            yield Absent("rank_memory_limit_bytes", subject, "no cgroup of the rank has a memory limit", expected=False)
        else:
            yield Sample("rank_memory_limit_bytes", subject, float(use.limit_bytes), now)
        if use.oom_kills is not None:
            yield Sample("rank_oom_kills_total", subject, float(use.oom_kills), now)

    def _cpu(self, subject: Subject, rank: _Rank, now: float) -> Iterator[Observation]:
        seen, membership = self._round.cpu, rank.membership
        if membership is not None and membership not in seen:
            seen[membership] = self._cgroups.cpu(membership) if self._cgroups else None
        use = seen.get(membership) if membership is not None else None
        if rank.cpus is not None:
            quota = use.quota_cpus if use else None
            yield Sample("rank_cpus_allowed", subject, min(float(rank.cpus), quota or float("inf")), now)
        if use and use.throttled_seconds is not None:
            yield Sample("rank_cpu_throttled_seconds_total", subject, use.throttled_seconds, now)
