"""Which processes are ranks, and which process of this host each of them is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from aidiag.collectors.collector import Context
from aidiag.collectors.node import Node
from aidiag.collectors.process.files import parse_status
from aidiag.collectors.records import FoundRecord, newest, records_of
from aidiag.collectors.subject import Subject, rank

FRESH_SECONDS = 1.5
"""How old what another collector has read from the records may be."""
INITIAL_PID_NAMESPACE = 4026531836
"""PROC_PID_INIT_INO of include/linux/proc_ns.h: the PID namespace that a host starts with."""


@dataclass(frozen=True, slots=True)
class RankProcess:
    """A rank as its record describes it.

    `pid` and `worker_pids` (of loader workers, dead ones too) are numbers of the PID namespace `pid_namespace`, its
    inode, 0 where it is not known. `start_ticks` is field 22 of /proc/PID/stat. `training` tells whether the rank was
    last seen in the middle of training, None where the record does not say.
    """

    job: str
    rank: int
    host: str
    pid: int
    start_ticks: int
    pid_namespace: int = 0
    worker_pids: tuple[int, ...] = ()
    training: bool | None = None
    attached_unix: float | None = None

    @property
    def subject(self) -> Subject:
        """The rank as findings name it."""
        return rank(self.rank, host=self.host, job=self.job)

    @property
    def key(self) -> tuple[str, int, int, int]:
        """One incarnation of one rank: a restarted rank has another key."""
        return (self.job, self.rank, self.pid, self.start_ticks)

    @property
    def started(self) -> tuple[int, float]:
        """When the process started, for comparison with other incarnations on the same host."""
        return (self.start_ticks, self.attached_unix or 0.0)


RankSource: TypeAlias = Callable[[], Iterable[RankProcess]]


def known_ranks(context: Context) -> RankSource:
    """The ranks of the context's job on this host, read anew at each call from the shim's records."""
    finder = records_of(context)

    def read() -> list[RankProcess]:
        found = finder.find(max_age_seconds=FRESH_SECONDS)
        return [_process(one, context.node.name) for one in newest(found).values()]

    return read


def _process(found: FoundRecord, host: str) -> RankProcess:
    identity, state = found.record.identity, found.record.state
    return RankProcess(
        job=identity.job_id,
        rank=identity.rank,
        host=host,
        pid=found.owner.pid,
        start_ticks=found.owner.start_ticks,
        pid_namespace=found.owner.pid_namespace,
        worker_pids=tuple(pid for loader in found.record.loaders for pid in loader.worker_pids),
        training=state.stage == "training",
        attached_unix=identity.attached_unix,
    )


def pid_namespace(node: Node, process: str = "self") -> int | None:
    """The inode of a process's PID namespace, None where it cannot be read."""
    try:
        text = node.link(f"/proc/{process}/ns/pid")
    except OSError:
        return None
    inode = text.removeprefix("pid:[").removesuffix("]")
    return int(inode) if inode.isdecimal() else None


def sees_all_processes(node: Node) -> bool | None:
    """Whether the process ids of the whole host are ours: not so in a container with a PID namespace of its own. None
    where that is not known.
    """
    try:
        container = node.container()
    except OSError:  # a live host does not tell yet
        namespace = pid_namespace(node)
        return None if namespace is None else namespace == INITIAL_PID_NAMESPACE
    return container is None or container.get("pid_namespace") != "own"


class LocalPids:
    """Translates process ids of other PID namespaces into those of the node's /proc (field NSpid of its status files).

    The node's /proc may be that of a namespace above ours: the host's, mounted in a container.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        try:
            below = len(parse_status(node.read("/proc/self/status")).get("NSpid", "").split()) > 1
        except OSError:
            below = False
        self._shown = pid_namespace(node, "1" if below else "self")
        self._may_be_ours = not below

    def is_ours(self, namespace: int) -> bool:
        """Whether numbers of a PID namespace are those of /proc, taken to be so where that is not known."""
        if not namespace or self._shown is None:
            return self._may_be_ours
        return namespace == self._shown

    def inner(self, pid: int) -> int | None:
        """The number that a process of /proc has in the innermost namespace it is in."""
        try:
            numbers = parse_status(self._node.read(f"/proc/{pid}/status")).get("NSpid", "").split()
        except OSError:
            return None
        return int(numbers[-1]) if numbers and numbers[-1].isdecimal() else None

    def find(self, wanted: set[tuple[int, int]]) -> dict[tuple[int, int], int]:
        """The numbers in /proc of processes given as (namespace, number in it). Looks at every process of the host."""
        found: dict[tuple[int, int], int] = {}
        namespaces = {namespace for namespace, _ in wanted}
        for name in self._node.entries("/proc"):
            namespace = pid_namespace(self._node, name) if name.isdecimal() else None
            if namespace in namespaces:
                inner = self.inner(int(name))
                if inner is not None and (namespace, inner) in wanted:
                    found[namespace, inner] = int(name)
        return found
