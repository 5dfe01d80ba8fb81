"""Who printed a message: from the prefix of its line, from the owner of its file, and from what was learned before.

A message that cannot be attributed for certain has no rank; nothing is guessed. In particular a prefix that was torn or
joined when several processes wrote into one file blames nobody.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from aidiag.collectors.logs.prefix import RANK_LIMIT, Prefix, read_labels, read_prefix
from aidiag.collectors.logs.scanner import Line
from aidiag.collectors.observation import FieldValue

PROCESSES_KEPT = 65_536
NEIGHBOUR_BYTES = 2_000
HABIT_LINES = 3
HABIT_SHARE = 0.7

_BARE_LABEL = re.compile(rb"([ ]{0,6}\d{1,7}): ?|([A-Za-z](?=[\w.-]{0,62}[\d.-])[\w.-]{0,62}): ")


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a whole file is, as far as its name or its launcher tells.

    What a certain owner says goes before what the text says; a name such as `rank3.log` counts only until a label in the file
    contradicts it.
    """

    rank: int | None = None
    local_rank: int | None = None
    host: str = ""
    pid: int | None = None
    certain: bool = True


NOBODY = Owner()


@dataclass(frozen=True, slots=True)
class Origin:
    """Who printed a message, and when by its own clock; None or empty where that is not certain."""

    rank: int | None = None
    local_rank: int | None = None
    host: str = ""
    pid: int | None = None
    device: int | None = None
    unix: float | None = None


@dataclass(frozen=True, slots=True)
class _Claim:
    """What a communicator says of a process: its rank among `ranks`."""

    ranks: int
    rank: int


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
        self._hosts: dict[int, Counter[str]] = {}

    def see(self, host: str, pid: int) -> bool:
        """Take note of a process; False when the name looks like a torn form of one that was seen more often."""
        if len(self._hosts) >= PROCESSES_KEPT and pid not in self._hosts:
            return True
        hosts = self._hosts.setdefault(pid, Counter())
        if host not in hosts and len(hosts) >= 64:
            return False
        hosts[host] += 1
        return len(hosts) == 1 or not any(
            (host.endswith(other) or other.endswith(host)) and count >= hosts[host]
            for other, count in hosts.items()
            if other != host
        )

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

    def rank(self, host: str, pid: int) -> int | None:
        """The rank of a process, None while it is not known for certain."""
        labelled = self._labelled.get((host, pid))
        if labelled and not (labelled[1] and self.tasks_are_launchers):
            return labelled[0]
        claim = self._claims.get((host, pid))
        return claim.rank if claim and claim.ranks not in self._contested else None


class Attribution:
    """Attributes the messages of one stream. `reference` is when it was read, in Unix seconds (for times without year)."""

    def __init__(self, processes: Processes, owner: Owner = NOBODY, reference: float = 0.0) -> None:
        self.owner = owner
        self.reference = reference
        self._processes = processes
        self._labels: Counter[bytes] = Counter()
        self._sampled = 0

    def origin(self, line: Line, message: int) -> Origin:
        """Who printed the message that starts at `message` of the line's text."""
        prefix = read_prefix(line.text, message)
        owner = self.owner
        if not owner.certain and (_differ(owner.rank, prefix.rank) or _differ(owner.local_rank, prefix.local_rank)):
            owner = self.owner = replace(owner, rank=None, local_rank=None)
        if not prefix.whole:
            return Origin(self._rank_of(owner), owner.local_rank, owner.host, owner.pid)
        host = owner.host or prefix.host
        if not host and prefix.bare_host and self._habit(line, b"host"):
            host = prefix.bare_host
        pid = prefix.pid if owner.pid is None else owner.pid
        rank = prefix.rank
        if rank is not None and rank >= RANK_LIMIT:
            rank = None
        if host and pid is not None:
            if not self._processes.see(host, pid):
                return Origin(owner.rank, owner.local_rank, owner.host, owner.pid)
            if rank is not None and not self._processes.label(host, pid, rank):
                return Origin(owner.rank, owner.local_rank, host, pid)
        task = prefix.task
        if task is None and prefix.bare_label and self._habit(line, b"%d" % len(prefix.bare_label)):
            task = prefix.bare_task
        if task is not None:
            of_task = self._processes.task(task, prefix, (host, pid) if host and pid is not None else None)
            if of_task is None and not self._processes.tasks_are_launchers:
                return Origin(owner.rank, owner.local_rank, owner.host, owner.pid)
            rank = of_task if rank is None else rank
        if rank is None and host and pid is not None:
            rank = self._processes.rank(host, pid)
        return Origin(
            rank if owner.rank is None else owner.rank,
            prefix.local_rank if owner.local_rank is None else owner.local_rank,
            host,
            pid,
            prefix.device,
            prefix.stamp.unix(self.reference) if prefix.stamp else None,
        )

    def launcher_spoke(self) -> None:
        """Take note that a torchrun printed into this stream: the tasks of srun or mpirun are launchers then."""
        if self._labels:
            self._processes.tasks_are_launchers = True

    def learn(self, origin: Origin, fields: Mapping[str, FieldValue]) -> Origin:
        """Take note of what a line of a communicator says of its process; the origin with the rank that follows."""
        rank, ranks = fields.get("comm_rank"), fields.get("comm_ranks")
        if isinstance(rank, int) and isinstance(ranks, int) and origin.host and origin.pid is not None:
            self._processes.claim(origin.host, origin.pid, origin.device, rank, ranks)
            if origin.rank is None:
                return replace(origin, rank=self._processes.rank(origin.host, origin.pid))
        return origin

    def labels(self, line: Line) -> tuple[tuple[object, ...], int]:
        """What the labels of a line say about who printed it, to compare lines by; and where its content begins."""
        prefix = read_labels(line.text)
        bare = bool(prefix.bare_label and self._habit(line, b"%d" % len(prefix.bare_label)))
        bare = bare or bool(prefix.bare_host and self._habit(line, b"host"))
        if not bare and (prefix.bare_label or prefix.bare_host):
            return Prefix().identity, 0
        return prefix.identity, prefix.content

    def _rank_of(self, owner: Owner) -> int | None:
        if owner.rank is None and owner.host and owner.pid is not None:
            return self._processes.rank(owner.host, owner.pid)
        return owner.rank

    def _habit(self, line: Line, style: bytes) -> bool:
        """Whether lines of this stream begin with bare labels of this style (their width, or host names) as a rule.

        `3: ` is a task's label under `srun --label`, which pads all labels of a job to one width, and anything elsewhere.
        """
        if self._sampled < 64:
            data = line.block.data
            around = data[max(0, line.at - NEIGHBOUR_BYTES) : line.end + NEIGHBOUR_BYTES]
            for neighbour in around.split(b"\n")[1:-1] or around.split(b"\n"):
                if not neighbour.strip():
                    continue
                self._sampled += 1
                if label := _BARE_LABEL.match(neighbour):
                    self._labels[b"host" if label[2] else b"%d" % len(label[1])] += 1
        return self._labels[style] >= max(HABIT_LINES, HABIT_SHARE * self._sampled)


def _differ(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one != other
