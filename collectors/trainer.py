"""Steps, phases, loaders and memory of the ranks, from the records that the trainer shim keeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from aidiag.collectors.collector import Collector, Context
from aidiag.collectors.comm_split import CommSplit
from aidiag.collectors.errors import UnavailableError
from aidiag.collectors.launched_ranks import LaunchedRanks, RankProcesses
from aidiag.collectors.observation import Absent, Event, FieldValue, Observation, Place, Sample
from aidiag.collectors.rank_samples import job_samples, rank_samples
from aidiag.collectors.rank_state import CODES_HELP, RankState
from aidiag.collectors.records import FoundRecord, OffNote, RecordFinder, newest, records_of
from aidiag.collectors.signal import EventKind, Signal
from aidiag.collectors.subject import Subject, rank
from aidiag.trainer_shim.owner import Owner

SIGNALS: tuple[Signal, ...] = (
    # identity
    Signal("rank_info", "info", "", "rank", "Who a rank is", labels=("local_rank", "gpu", "framework", "launcher")),
    Signal("rank_expected", "gauge", "count", "rank", "1 for each rank that should live on this host"),
    Signal("rank_up", "gauge", "count", "rank", "1 while the process of the rank lives, 0 after it ended"),
    Signal(
        "rank_start_timestamp_seconds", "gauge", "timestamp_seconds", "rank", "When the process of the rank started"
    ),
    Signal("rank_heartbeat_timestamp_seconds", "gauge", "timestamp_seconds", "rank", "Last sign of life of the shim"),
    Signal(
        "rank_state_code",
        "gauge",
        "code",
        "rank",
        CODES_HELP,
    ),
    Signal(
        "rank_shim_attached", "gauge", "count", "rank", "1 when the shim has attached in the rank, 0 when it only armed"
    ),
    Signal("rank_restarts_total", "counter", "count", "rank", "Restarts of the rank in this job"),
    Signal("job_world_size", "gauge", "count", "job", "Ranks that the job says it has"),
    Signal("job_ranks_seen", "gauge", "count", "job", "Ranks of which this host has seen a sign"),
    Signal("job_ranks_attached", "gauge", "count", "job", "Ranks of this host in which the shim has attached"),
    Signal("rank_phase", "text", "", "rank", "The phase that the rank is in"),
    Signal("rank_phase_seconds", "gauge", "seconds", "rank", "How long the rank has been in its phase"),
    # steps
    Signal("steps_total", "counter", "count", "rank", "Optimizer steps done"),
    Signal("steps_skipped_total", "counter", "count", "rank", "Optimizer steps that the gradient scaler skipped"),
    Signal("step_seconds_total", "counter", "seconds", "rank", "Wall time inside steps"),
    Signal(
        "step_phase_seconds_total",
        "counter",
        "seconds",
        "rank",
        "Wall time of steps by phase: data_wait, h2d, forward, backward, optimizer, checkpoint, evaluation, other; "
        "communication is comm_late_peer and comm_wire where all ranks of the job are on this host, else comm",
        labels=("phase",),
    ),
    Signal("step_last_seconds", "gauge", "seconds", "rank", "Wall time of the last step"),
    Signal("step_p99_seconds", "gauge", "seconds", "rank", "99th percentile of the recorded last steps"),
    Signal("step_last_end_timestamp_seconds", "gauge", "timestamp_seconds", "rank", "When the last step ended"),
    Signal(
        "step_idle_seconds",
        "gauge",
        "seconds",
        "rank",
        "Time since the last step ended, outside checkpoint and evaluation",
    ),
    Signal("batches_total", "counter", "count", "rank", "Batches that the training loaders gave"),
    Signal("loss", "gauge", "ratio", "rank", "Last loss that the trainer told"),
    Signal("loss_scale", "gauge", "ratio", "rank", "Scale of the gradient scaler"),
    # loaders
    Signal(
        "loader_wait_seconds_total",
        "counter",
        "seconds",
        "rank",
        "Time that the step waited for a loader",
        labels=("loader",),
    ),
    Signal("loader_batches_total", "counter", "count", "rank", "Batches that a loader gave", labels=("loader",)),
    Signal(
        "loader_behind_batches_total",
        "counter",
        "count",
        "rank",
        "Steps in which a loader was still at work when the rank began to wait for its peers",
        labels=("loader",),
    ),
    Signal(
        "loader_workers",
        "gauge",
        "count",
        "rank",
        "Worker processes of a loader, 0 when it loads in the rank itself",
        labels=("loader",),
    ),
    Signal(
        "loader_queue_batches",
        "gauge",
        "count",
        "rank",
        "Batches that lay ready when the last one was taken",
        labels=("loader",),
    ),
    # memory (CUDA builds)
    Signal("torch_memory_allocated_bytes", "gauge", "bytes", "rank", "Memory that tensors hold on the rank's GPU"),
    Signal("torch_memory_reserved_bytes", "gauge", "bytes", "rank", "Memory that the caching allocator holds"),
    Signal("torch_memory_peak_bytes", "gauge", "bytes", "rank", "Highest memory that tensors held"),
    # the shim itself
    Signal("shim_hook_errors_total", "counter", "count", "rank", "Errors caught inside the shim's hooks"),
    Signal("shim_overhead_seconds_total", "counter", "seconds", "rank", "Time that the shim's hooks took"),
)

EVENTS: tuple[EventKind, ...] = (
    EventKind(
        "rank_raised",
        "rank",
        "An exception left the training loop of a rank",
        ("type", "message", "where", "phase", "step"),
    ),
    EventKind("shim_off", "rank", "The shim switched itself off in a rank", ("reason",)),
)

NOTES = {"exception": "rank_raised", "hook_off": "shim_off"}
"""Notes of a record that become events."""


class TrainerCollector(Collector):
    """Steps, phases, loaders and memory of the ranks, from the records that the trainer shim keeps."""

    name: ClassVar[str] = "trainer"
    interval_seconds: ClassVar[float] = 1.0
    signals: ClassVar[tuple[Signal, ...]] = SIGNALS
    events: ClassVar[tuple[EventKind, ...]] = EVENTS

    def __init__(self, context: Context) -> None:
        self._context = context
        self._host = context.node.name
        self._finder: RecordFinder | None = None
        self._launched = LaunchedRanks(context.node, context.job)
        self._split = CommSplit()
        self._told: set[tuple[Owner, str, int]] = set()

    def collect(self) -> Iterable[Observation]:
        """What each rank's newest record says, and which ranks have none."""
        if not self._context.node.live:
            raise UnavailableError("records are kept in the memory of a live host")
        if self._finder is None:
            self._finder = records_of(self._context)
        now = self._context.clock.monotonic()
        all_found = self._finder.find()
        found = newest(all_found)
        self._split.update(found)
        launched = {(one.job, one.place.rank): one for one in self._launched.find(now)}
        observations: list[Observation] = []
        for (job, number), one in found.items():
            subject = rank(number, host=self._host, job=job)
            observations += rank_samples(one, subject, now, self._split)
            observations.append(Sample("rank_restarts_total", subject, _restarts(one, all_found), now))
            observations += self._notes(one, subject)
        off = _off_by_rank(self._finder.off_notes(), launched)
        for key in sorted((launched.keys() | off.keys()) - found.keys()):
            if self._context.job in (None, key[0]):
                subject = rank(key[1], host=self._host, job=key[0])
                observations += self._without_record(subject, launched.get(key), off.get(key), now)
        alone = [one for key, one in launched.items() if key not in found]
        observations += job_samples(found, alone, self._host, now)
        return observations

    def _notes(self, found: FoundRecord, subject: Subject) -> Iterator[Event]:
        for note in found.record.notes:
            key = (found.owner, note.kind, note.sequence)
            if note.kind not in NOTES or key in self._told:
                continue
            self._told.add(key)
            kind, fields = NOTES[note.kind], dict(note.fields)
            if note.kind == "hook_off":
                fields = {"reason": "the {hook} hook gave up after {type}: {message}".format_map(_Told(fields))}
            text = ", ".join(f"{name} {value}" for name, value in fields.items())
            place = Place(f"record of {subject}", None, f"{note.kind}: {text}")
            yield Event(kind, subject, note.monotonic, fields, note.unix, place, note.sequence)

    def _without_record(
        self, subject: Subject, processes: RankProcesses | None, off: OffNote | None, now: float
    ) -> Iterator[Observation]:
        """A rank that lives and cannot be seen inside, and why; one that may yet attach is starting."""
        yield Sample("rank_up", subject, 1.0, now)
        if off is not None:
            yield Sample("rank_shim_attached", subject, 0.0, now)
            if (off.owner, off.code, 0) not in self._told:
                self._told.add((off.owner, off.code, 0))
                place = Place(f"shim of {subject}", None, off.reason)
                yield Event("shim_off", subject, now, {"reason": off.reason}, off.unix, place)
        elif processes is not None and processes.reason:
            yield Absent("rank_shim_attached", subject, processes.reason, processes.remedy)
        else:
            yield Sample("rank_shim_attached", subject, 0.0, now)
            yield Sample("rank_state_code", subject, float(RankState.STARTING), now)


class _Told(dict[str, FieldValue]):
    """Fields of a note, which may lack some."""

    def __missing__(self, name: str) -> str:
        return "?"


def _restarts(found: FoundRecord, all_found: Iterable[FoundRecord]) -> float:
    """Restarts of a rank: as its launcher counts them, or as many as have left records before it."""
    own = found.record.identity
    starts = {
        one.record.identity.attached_unix
        for one in all_found
        if (one.record.identity.job_id, one.record.identity.rank) == (own.job_id, own.rank)
        and one.record.identity.attached_unix <= own.attached_unix
    }
    return float(max(own.restart_count, len(starts) - 1))


def _off_by_rank(
    notes: Iterable[OffNote], launched: Mapping[tuple[str, int], RankProcesses]
) -> dict[tuple[str, int], OffNote]:
    """Why shims are off, by job and rank. A note that could not say its rank is told by its process."""
    by_pid = {pid: key for key, one in launched.items() for pid in one.pids}
    off: dict[tuple[str, int], OffNote] = {}
    for note in notes:
        key = (note.job_id, note.rank) if note.rank is not None else by_pid.get(note.host_pid or 0)
        if key is not None:
            off[key[0], key[1]] = note
    return off
