"""Who printed a message: from the prefix of its line, from the owner of its file, and from what was learned before.

A message that cannot be attributed for certain has no rank; nothing is guessed. In particular a prefix that was torn or
joined when several processes wrote into one file blames nobody.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from aidiag.collectors.logs.labels import Bare, bare_label
from aidiag.collectors.logs.prefix import RANK_LIMIT, Prefix, read_labels, read_prefix
from aidiag.collectors.logs.processes import Processes
from aidiag.collectors.logs.scanner import Line
from aidiag.collectors.observation import FieldValue

NEIGHBOUR_BYTES = 2_000
HABIT_LINES = 3
HABIT_SHARE = 0.7

_SERIES_STYLES = frozenset({"boxed_host", "piped_host", "pod"})
"""Styles in which programs name themselves as well: they are labels only where several names of one series are there."""


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


_origin = lru_cache(maxsize=4096)(Origin)


class Attribution:
    """Attributes the messages of one stream. `reference` is when it was read, in Unix seconds (for times without year)."""

    def __init__(self, processes: Processes, owner: Owner = NOBODY, reference: float = 0.0) -> None:
        self.owner = owner
        self.reference = reference
        self._processes = processes
        self._styles: Counter[str] = Counter()
        self._series: dict[tuple[str, str], set[str | int | None]] = defaultdict(set)
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
        bare = prefix.bare if prefix.bare and self._habit(line, prefix.bare) else None
        if bare and not host:
            host = bare.host
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
        if task is None and bare:
            task = bare.task
        if task is not None:
            of_task = self._processes.task(task, prefix, (host, pid) if host and pid is not None else None)
            if of_task is None and not self._processes.tasks_are_launchers:
                return Origin(owner.rank, owner.local_rank, owner.host, owner.pid)
            rank = of_task if rank is None else rank
        if rank is None and host and pid is not None:
            rank = self._processes.rank(host, pid)
        if prefix.said_rank is not None:
            if _differ(rank, prefix.said_rank) or prefix.said_rank >= RANK_LIMIT:
                return Origin(owner.rank, owner.local_rank, owner.host, owner.pid)
            rank = prefix.said_rank
        return _origin(
            rank if owner.rank is None else owner.rank,
            prefix.local_rank if owner.local_rank is None else owner.local_rank,
            host,
            pid,
            prefix.device,
            prefix.stamp.unix(self.reference) if prefix.stamp else None,
        )

    def launcher_spoke(self) -> None:
        """Take note that a torchrun printed into this stream: the tasks of srun or mpirun are launchers then."""
        if self._styles:
            self._processes.tasks_are_launchers = True

    def learn(self, origin: Origin, fields: Mapping[str, FieldValue]) -> Origin:
        """Take note of what a line of a communicator says of its process; the origin with the rank that follows."""
        rank, ranks = fields.get("comm_rank"), fields.get("comm_ranks")
        if isinstance(rank, int) and isinstance(ranks, int) and origin.host and origin.pid is not None:
            self._processes.claim(origin.host, origin.pid, origin.device, rank, ranks)
            if origin.rank is None:
                return replace(origin, rank=self._processes.rank(origin.host, origin.pid))
        return origin

    def placed(self, fields: Mapping[str, FieldValue]) -> None:
        """Take note of a program's word on which process is which rank, of all ranks that there are."""
        rank, pid, host, device = (fields.get(name) for name in ("rank", "pid", "host", "device"))
        if isinstance(rank, int) and isinstance(pid, int) and isinstance(host, str):
            self._processes.claim(host, pid, device if isinstance(device, int) else None, rank, RANK_LIMIT)

    def rank_of_process(self, host: FieldValue | None, pid: FieldValue | None) -> int | None:
        """The rank of a process of which a launcher speaks, None where that is not known for certain."""
        if not isinstance(pid, int):
            return None
        return self._processes.rank_on(str(host or "") or self.owner.host, pid)

    def labels(self, line: Line) -> tuple[tuple[object, ...], int]:
        """What the labels of a line say about who printed it, to compare lines by; and where its content begins."""
        prefix = read_labels(line.text)
        if prefix.bare and not self._habit(line, prefix.bare):
            return Prefix().identity, 0
        return prefix.identity, prefix.content

    def _rank_of(self, owner: Owner) -> int | None:
        if owner.rank is None and owner.host and owner.pid is not None:
            return self._processes.rank(owner.host, owner.pid)
        return owner.rank

    def _habit(self, line: Line, label: Bare) -> bool:
        """Whether lines of this stream begin with bare labels of this style (their width, or names) as a rule.

        `3: ` is a task's label under `srun --label`, which pads all labels of a job to one width, and anything elsewhere.
        """
        if self._sampled < 64:
            data = line.block.data
            around = data[max(0, line.at - NEIGHBOUR_BYTES) : line.end + NEIGHBOUR_BYTES]
            for neighbour in around.split(b"\n")[1:-1] or around.split(b"\n"):
                if not neighbour.strip():
                    continue
                self._sampled += 1
                if found := bare_label(neighbour):
                    self._styles[found.style] += 1
                    self._series[found.style, found.stem].add(found.host or found.task)
        if label.style in _SERIES_STYLES and len(self._series[label.style, label.stem]) < 2:
            return False
        return self._styles[label.style] >= max(HABIT_LINES, HABIT_SHARE * self._sampled)


def _differ(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one != other
