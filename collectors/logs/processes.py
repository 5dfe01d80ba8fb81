"""Which process of a job is which rank, as its logs tell."""

from __future__ import annotations

from dataclasses import dataclass, field

from aidiag.collectors.logs.prefix import RANK_LIMIT, Prefix

PROCESSES_KEPT = 32_768
HOSTS_OF_A_PID = 1_024


@dataclass(frozen=True, slots=True)
class _Claim:
    """What a communicator says of a process: its rank among `ranks`."""

    ranks: int
    rank: int


@dataclass(slots=True)
class _Sighting:
    """How often a process was seen, and those with the same process id and a host name of which one ends in the other."""

    count: int = 0
    alike: list[_Sighting] = field(default_factory=list)


class Processes:
    """What is known of the processes of a job, over all its logs: which rank each one is.

    torch's label `[rank3]:` says it for certain. The label of a task (srun, mpirun) says it where each task is one
    process, and not a torchrun that starts several. The lines of a communicator say it where that spans the whole job, which
    is taken to be so for the largest one, as long as no two processes hold the same rank in communicators of its size.
    """

    def __init__(self) -> None:
        self.tasks_are_launchers = False
        self._tasks: dict[int, tuple[str, int]] = {}
        self._labelled: dict[tuple[str, int], tuple[int, bool]] = {}
        self._doubted: set[tuple[str, int, int]] = set()
        self._claims: dict[tuple[str, int], _Claim | None] = {}
        self._holders: dict[_Claim, tuple[str, int | None]] = {}
        self._contested: set[int] = set()
        self._seen: dict[tuple[str, int], _Sighting] = {}
        self._hosts: dict[int, dict[str, _Sighting]] = {}

    def see(self, host: str, pid: int) -> bool:
        """Take note of a process; False when the name looks like a torn form of one that was seen as often or more."""
        seen = self._seen.get((host, pid))
        if seen is None:
            if len(self._seen) >= PROCESSES_KEPT:
                return True
            seen = self._seen[host, pid] = _Sighting()
            of_pid = self._hosts.setdefault(pid, {})
            if len(of_pid) >= HOSTS_OF_A_PID:
                return True
            for other, sighting in of_pid.items():
                if other.endswith(host) or host.endswith(other):
                    seen.alike.append(sighting)
                    sighting.alike.append(seen)
            of_pid[host] = seen
        seen.count += 1
        return not seen.alike or all(other.count < seen.count for other in seen.alike)

    def task(self, task: int, prefix: Prefix, process: tuple[str, int] | None) -> int | None:
        """The rank of a task that printed a line with this prefix, None where tasks are not ranks."""
        known = self._tasks.get(task, process)
        if prefix.local_rank is not None or prefix.rank not in (None, task) or (process and known != process):
            self.tasks_are_launchers = True
        elif process and len(self._tasks) < PROCESSES_KEPT:
            self._tasks[task] = process
        if self.tasks_are_launchers or (process and not self.label(*process, task, by_task=True)):
            return None
        return task

    def label(self, host: str, pid: int, rank: int, by_task: bool = False) -> bool:
        """Learn from a launcher's label; False when it contradicts what is known, as a label on a torn line does.

        Against the word of a communicator a label is believed when it comes a second time.
        """
        known = self.rank(host, pid)
        if (host, pid) not in self._labelled and known not in (None, rank):
            doubt = (host, pid, rank)
            if doubt not in self._doubted:
                if len(self._doubted) < PROCESSES_KEPT:
                    self._doubted.add(doubt)
                return False
            known = None
        if known is None and len(self._labelled) < PROCESSES_KEPT:
            self._labelled[host, pid] = (rank, by_task)
        return known in (None, rank)

    def claim(self, host: str, pid: int, device: int | None, rank: int, ranks: int) -> None:
        """Learn from a line of a communicator."""
        if not 0 <= rank < ranks <= RANK_LIMIT or len(self._claims) >= PROCESSES_KEPT:
            return
        claim, key = _Claim(ranks, rank), (host, pid)
        holder = self._holders.setdefault(claim, (host, device))
        if holder != (host, device):
            self._contested.add(ranks)
        known = self._claims.get(key, claim)
        if known is None or known.ranks < ranks:
            self._claims[key] = claim
        elif known.ranks == ranks:
            self._claims[key] = claim if known == claim else None

    def rank_on(self, host: str, pid: int) -> int | None:
        """The rank of a process on a host, of whatever host where that is not told and only one has such a process."""
        hosts = [host] if host else list(self._hosts.get(pid, ()))
        return self.rank(hosts[0], pid) if len(hosts) == 1 else None

    def rank(self, host: str, pid: int) -> int | None:
        """The rank of a process, None while it is not known for certain."""
        labelled = self._labelled.get((host, pid))
        if labelled and not (labelled[1] and self.tasks_are_launchers):
            return labelled[0]
        claim = self._claims.get((host, pid))
        return claim.rank if claim and claim.ranks not in self._contested else None
