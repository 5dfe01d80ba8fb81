"""Steps, phases, loaders and memory of the ranks, from the records that the trainer shim keeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from aidiag.collectors.collector import Context
from aidiag.collectors.comm_split import CommSplit
from aidiag.collectors.observation import Event, Observation, Place, Sample
from aidiag.collectors.rank_samples import job_samples, rank_samples
from aidiag.collectors.records import FoundRecord, RecordFinder, newest
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
        "0 unknown, 1 starting, 2 rendezvous, 3 group init, 4 training, 5 checkpoint, 6 evaluation, 7 finished, 8 failed",
    ),
    Signal(
        "rank_shim_attached", "gauge", "count", "rank", "1 when the shim has attached in the rank, 0 when it only armed"
    ),
    Signal("rank_restarts_total", "counter", "count", "rank", "Restarts of the rank in this job"),
    Signal("job_world_size", "gauge", "count", "job", "Ranks that the job says it has"),
    Signal("job_ranks_seen", "gauge", "count", "job", "Ranks of which a sign has been seen, on all hosts in view"),
    Signal("job_ranks_attached", "gauge", "count", "job", "Ranks in which the shim has attached, on all hosts in view"),
    Signal("rank_phase", "text", "", "rank", "The phase that the rank is in"),
    Signal("rank_phase_seconds", "gauge", "seconds", "rank", "How long the rank has been in its phase"),
    # steps
    Signal("steps_total", "counter", "count", "rank", "Optimizer steps done"),
    Signal("steps_skipped_total", "counter", "count", "rank", "Optimizer steps that the gradient scaler skipped"),
    Signal("step_seconds_total", "counter", "seconds", "rank", "Wall time inside steps"),
    Signal(
        "step_phase_seconds_total", "counter", "seconds", "rank", "Wall time inside steps by phase", labels=("phase",)
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
    EventKind("rank_raised", "rank", "An exception left the training loop of a rank", ("type", "message")),
    EventKind("shim_off", "rank", "The shim switched itself off in a rank", ("reason",)),
)

NOTE_KINDS = {"exception": "rank_raised", "crash": "rank_raised"}
"""Notes of a record that become events."""


class TrainerCollector:
    """Steps, phases, loaders and memory of the ranks, from the records that the trainer shim keeps."""

    name: ClassVar[str] = "trainer"
    interval_seconds: ClassVar[float] = 1.0
    signals: ClassVar[tuple[Signal, ...]] = SIGNALS
    events: ClassVar[tuple[EventKind, ...]] = EVENTS

    def __init__(self, context: Context) -> None:
        self._context = context
        self._finder = RecordFinder(context.record_folders, job=context.job)
        self._split = CommSplit()
        self._told: set[tuple[Owner, str, int]] = set()

    def collect(self) -> Iterable[Observation]:
        """What each rank's newest record says."""
        now = self._context.clock.monotonic()
        found = newest(self._finder.find())
        self._split.update(found)
        observations: list[Observation] = []
        for key, one in found.items():
            subject = rank(key[1], host=self._context.node.name, job=key[0])
            observations += rank_samples(one, subject, now, self._split)
            observations += self._notes(one, subject)
        observations += job_samples(found, self._context.node.name, now)
        observations += self._off(found, now)
        return observations

    def _notes(self, found: FoundRecord, subject: Subject) -> Iterator[Event]:
        for note in found.record.notes:
            kind = NOTE_KINDS.get(note.kind)
            key = (found.owner, note.kind, note.sequence)
            if kind is not None and key not in self._told:
                self._told.add(key)
                source = f"record of {subject}"
                text = ", ".join(f"{name} {value}" for name, value in note.fields.items())
                place = Place(source, None, f"{note.kind}: {text}")
                yield Event(kind, subject, note.monotonic, note.fields, note.unix, place, note.sequence)

    def _off(self, found: Mapping[tuple[str, int], FoundRecord], now: float) -> Iterator[Observation]:
        for note in self._finder.off_notes():
            job = note.job_id or self._context.job or ""
            if note.rank is None or (job, note.rank) in found or self._context.job not in (None, job):
                continue
            subject = rank(note.rank, host=self._context.node.name, job=job)
            yield Sample("rank_up", subject, 1.0, now)
            yield Sample("rank_shim_attached", subject, 0.0, now)
            if (note.owner, "off", 0) not in self._told:
                self._told.add((note.owner, "off", 0))
                fields = {"reason": note.reason}
                yield Event("shim_off", subject, now, fields, note.unix, Place(f"shim of {subject}", None, note.reason))
