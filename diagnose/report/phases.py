"""Who got how far, from the messages of a log: one row for each rank, from its start to its end.

The order is that of a start-up: start, rendezvous, store, environment, bootstrap interface, network, bootstrap, topology, channels,
tuning, ready, first collective, training, ended. Where NCCL prints `Init START` differs by version: up to 2.22 after the bootstrap,
so that it shows the topology phase, from 2.23 before it. With 2.22 and later the channels are connected at the first collective,
after `Init COMPLETE`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from aidiag.collectors.observation import Event
from aidiag.diagnose.report.model import RankRow

RANKS_KEPT = 1 << 16
PROCESSES_KEPT = 1 << 16
ABSENT_LISTED = 1_024
"""So many ranks of which no line tells are listed, no more."""

ORDER = (
    "start", "rendezvous", "store", "environment", "interface", "network", "bootstrap", "topology", "channels", "tuning", "ready",
    "first collective", "training", "ended",
)  # fmt: skip

_RANK = {name: position for position, name in enumerate(ORDER)}
_START_IS_BEFORE_BOOTSTRAP = (2, 23)

_PHASES: Mapping[str, str] = {
    "rank_announced": "start",
    "gpu_place": "start",
    "rendezvous_entered": "rendezvous",
    "store_waiting": "store",
    "store_timeout": "store",
    "connect_retried": "store",
    "nccl_setting": "environment",
    "nccl_version": "environment",
    "nccl_bootstrap_interface": "interface",
    "nccl_network_devices": "network",
    "nccl_network_chosen": "network",
    "nccl_channel": "channels",
    "nccl_init_completed": "ready",
    "collective_timeout": "first collective",
    "collective_state": "first collective",
    "step_timed": "training",
    "epoch_ended": "training",
}
_STEPS = {"bootstrap": "topology", "topology": "topology", "tuning": "tuning"}

_TROUBLE: Mapping[str, str] = {
    "python_exception": "failed",
    "process_crashed": "failed",
    "cuda_out_of_memory": "failed",
    "cuda_error": "failed",
    "nccl_error": "failed",
    "process_group_aborted": "failed",
    "peer_connection_closed": "lost a peer",
    "collective_timeout": "timed out",
    "store_timeout": "timed out",
    "peer_wait_timeout": "timed out",
    "connect_failed": "timed out",
}
_SAID = ("type", "operation", "result", "error", "signal", "text")


@dataclass(slots=True)
class _Course:
    """How far one process got."""

    phase: str = ""
    started: bool = False
    trouble: str = ""
    said: str = ""
    exit_code: int | None = None
    ended: bool = False
    host: str = ""
    last_seen: float | None = None

    def take(self, other: _Course) -> None:
        """Add what is known of the same rank under another name."""
        if _RANK.get(other.phase, -1) > _RANK.get(self.phase, -1):
            self.phase = other.phase
        self.trouble, self.said = self.trouble or other.trouble, self.said or other.said
        self.host = self.host or other.host
        self.ended = self.ended or other.ended
        self.exit_code = other.exit_code if self.exit_code is None else self.exit_code
        seen = [time for time in (self.last_seen, other.last_seen) if time is not None]
        self.last_seen = max(seen, default=None)


class Phases:
    """Follows the events of an incident, in the order of its logs."""

    def __init__(self) -> None:
        self._by_rank: dict[int, _Course] = {}
        self._by_process: dict[tuple[str, int], _Course] = {}
        self._rank_of: dict[tuple[str, int], int] = {}
        self._version: tuple[int, ...] = ()
        self._world = 0
        self._absent: set[int] = set()

    @property
    def world_size(self) -> int | None:
        """How many ranks the job has, as its largest communicator or store says; None where nothing says it."""
        return self._world or None

    def follow(self, events: Iterable[Event]) -> Iterator[Event]:
        """The events, as they pass."""
        for event in events:
            self.see(event)
            yield event

    def see(self, event: Event) -> None:
        """Take note of an event."""
        fields = event.fields
        if event.kind == "nccl_version":
            self._version = tuple(int(part) for part in str(fields.get("version", "0")).split(".") if part.isdigit())
        if event.kind == "ranks_absent":
            self._absent |= {
                int(part) for part in str(fields.get("ranks", "")).replace(",", " ").split() if part.isdigit()
            }
        for name in ("comm_ranks", "expected", "world_size"):
            value = fields.get(name)
            if event.kind not in ("rendezvous_waiting", "world_size_conflict") and isinstance(value, int):
                self._world = max(self._world, min(value, RANKS_KEPT))
        course = self._course(event)
        if course is not None:
            self._move(course, event)

    def _course(self, event: Event) -> _Course | None:
        host, pid = event.fields.get("host"), event.fields.get("pid")
        process = (host, pid) if isinstance(host, str) and host and isinstance(pid, int) else None
        rank = event.subject.rank if event.subject is not None else None
        if rank is not None and (0 <= rank < RANKS_KEPT):
            if process is not None and len(self._rank_of) < PROCESSES_KEPT:
                self._rank_of.setdefault(process, rank)
            course = self._by_rank.setdefault(rank, _Course())
            course.host = course.host or (event.subject.host if event.subject else "")
            return course
        if process is None or len(self._by_process) >= PROCESSES_KEPT:
            return None
        course = self._by_process.setdefault(process, _Course())
        course.host = process[0]
        return course

    def _move(self, course: _Course, event: Event) -> None:
        kind, fields = event.kind, event.fields
        if event.unix is not None:
            course.last_seen = max(event.unix, course.last_seen or event.unix)
        phase = self._phase(course, event)
        if kind == "nccl_init_started":
            course.phase = phase  # a further communicator begins anew
        elif _RANK.get(phase, -1) > _RANK.get(course.phase, -1):
            course.phase = phase
        if kind == "nccl_comm_ended" and fields.get("how") == "Destroy":
            course.ended = True
        if kind == "worker_failed" and isinstance(fields.get("exit_code"), int):
            course.exit_code = int(fields["exit_code"])
        word = _TROUBLE.get(kind)
        if word is not None and (not course.trouble or (word == "failed" != course.trouble)):
            course.trouble = word
            course.said = next((str(fields[name]) for name in _SAID if fields.get(name)), kind.replace("_", " "))

    def _phase(self, course: _Course, event: Event) -> str:
        kind = event.kind
        if kind == "nccl_init_started":
            return "bootstrap" if self._version >= _START_IS_BEFORE_BOOTSTRAP else "topology"
        if kind == "nccl_progress":
            step = str(event.fields.get("step", ""))
            phase = _STEPS.get(step, "tuning")
        else:
            phase = _PHASES.get(kind, "")
        late = course.phase == "ready" and phase in ("channels", "tuning")
        return "first collective" if late else phase

    def rows(self) -> tuple[RankRow, ...]:
        """The rows in rank order; ranks of which no line tells are listed where others were waited for or several speak."""
        found = dict(self._by_rank)
        for process, course in self._by_process.items():
            rank = self._rank_of.get(process)
            if rank is not None:
                found.setdefault(rank, _Course()).take(course)
        absent = set(self._absent)
        if len(found) > 1:
            absent |= set(range(min(self._world, ABSENT_LISTED)))
        rows = [_row(rank, course) for rank, course in found.items()]
        rows += [
            RankRow(rank, "", "missing", detail="no line of it in these logs")
            for rank in sorted(absent - found.keys())[:ABSENT_LISTED]
        ]
        return tuple(sorted(rows, key=lambda row: row.rank))


def _row(rank: int, course: _Course) -> RankRow:
    if course.exit_code:
        state = "killed" if course.exit_code < 0 or course.exit_code > 128 else "failed"
        detail = f"signal {-course.exit_code}" if course.exit_code < 0 else f"exit code {course.exit_code}"
        detail += f"; {course.said}" if course.said else ""
    elif course.trouble:
        state, detail = course.trouble, course.said
    elif course.ended or course.phase == "ended":
        state, detail = "finished", ""
    elif course.phase in ("ready", "first collective", "training"):
        state, detail = "running", ""
    else:
        state, detail = "starting", ""
    phase = "ended" if course.ended and not course.trouble else course.phase
    return RankRow(rank, course.host, state, phase=phase or None, last_seen=course.last_seen, detail=detail[:120])
