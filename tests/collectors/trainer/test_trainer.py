"""The trainer collector: what records and processes say, as samples and events."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aidiag.collectors.collector import Context
from aidiag.collectors.comm_split import COMM_PHASES
from aidiag.collectors.errors import UnavailableError
from aidiag.collectors.observation import Absent, Event, Sample
from aidiag.collectors.rank_samples import expected_ranks
from aidiag.collectors.trainer import EVENTS, SIGNALS, TrainerCollector
from aidiag.trainer_shim import layout, owner
from aidiag.trainer_shim.launchers import PlaceInJob

HERE = owner.this_process()
GONE = HERE._replace(pid=4_100_000)
SHIM = "/opt/aidiag/trainer_shim/inject"


class View:
    """One collection, easy to ask."""

    def __init__(self, collector: TrainerCollector) -> None:
        self.all = list(collector.collect())
        declared = {signal.name: signal for signal in SIGNALS}
        kinds = {kind.name: kind for kind in EVENTS}
        for one in self.all:
            if isinstance(one, Event):
                assert set(one.fields) <= set(kinds[one.kind].fields)
            else:
                assert declared[one.signal].scope == one.subject.kind
                assert tuple(sorted(declared[one.signal].labels)) == tuple(name for name, _ in one.labels)

    def value(self, signal: str, rank: int | None = 0, **labels: str) -> Any:
        """The one value of a signal, None where it has none."""
        values = [
            one.value
            for one in self.all
            if isinstance(one, Sample)
            and one.signal == signal
            and one.subject.rank == rank
            and labels.items() <= dict(one.labels).items()
        ]
        assert len(values) <= 1
        return values[0] if values else None

    def ranks(self, signal: str) -> list[int]:
        """The ranks that have a value of a signal."""
        return sorted(one.subject.rank or 0 for one in self.all if isinstance(one, Sample) and one.signal == signal)

    @property
    def events(self) -> list[tuple[str, int | None, str]]:
        """Kind, rank and the first field of each event."""
        return [
            (one.kind, one.subject.rank if one.subject else None, str(next(iter(one.fields.values()))))
            for one in self.all
            if isinstance(one, Event)
        ]

    @property
    def absent(self) -> list[tuple[str, int | None, str]]:
        """What is absent, and why."""
        return [(one.signal, one.subject.rank, one.reason) for one in self.all if isinstance(one, Absent)]


@pytest.fixture
def collector(context: Context) -> TrainerCollector:
    """The collector of the job `j`."""
    return TrainerCollector(context)


def test_a_rank_is_told(collector: TrainerCollector, trainer: Callable[..., Any], context: Any) -> None:
    """Identity, steps, phases and state of a rank come as samples of it."""
    one = trainer(2, launcher="torchrun", gpu="5")
    for _ in range(4):
        one.step(data_wait=0.3, forward=0.1, other=0.1)
    one.timeline.tell_loss(2.5)
    one.timeline.write_state(one.now)
    context.clock.now = one.now / 1e9
    view = View(collector)

    assert (4, 0, 1, 4) == tuple(
        view.value(name, 2) for name in ("steps_total", "steps_skipped_total", "rank_up", "rank_state_code")
    )
    assert 2.0 == pytest.approx(view.value("step_seconds_total", 2))
    assert 1.2 == pytest.approx(view.value("step_phase_seconds_total", 2, phase="data_wait"))
    assert view.value("step_phase_seconds_total", 2, phase="backward") is None
    assert 0.5 == pytest.approx(view.value("step_last_seconds", 2)) == view.value("step_p99_seconds", 2)
    assert 0.0 == pytest.approx(view.value("step_idle_seconds", 2), abs=1e-6)
    assert 2.5 == view.value("loss", 2)
    assert view.value("torch_memory_peak_bytes", 2) is None
    assert 1 == view.value("rank_info", 2, gpu="5", launcher="torchrun", local_rank="2")
    assert abs(view.value("step_last_end_timestamp_seconds", 2) - time.time()) < 60
    assert ("other", 0) == (view.value("rank_phase", 2), view.value("shim_hook_errors_total", 2))


def test_the_first_step_is_no_usual_step(collector: TrainerCollector, trainer: Callable[..., Any]) -> None:
    """The first step holds start-up work and has no part in the usual step time."""
    one = trainer(0)
    one.step(other=30.0)
    assert View(collector).value("step_p99_seconds") is None
    one.step(other=0.5)

    assert 0.5 == pytest.approx(View(collector).value("step_p99_seconds"))


def test_loaders_and_memory(collector: TrainerCollector, trainer: Callable[..., Any]) -> None:
    """Each loader is a series of its own; memory that was never read is not zero."""
    one = trainer(0)
    one.step(data_wait=1.0)
    for index, (name, queue) in enumerate((("train", 3), ("train", -1), ("val", 0))):
        counts = layout.LOADER_COUNTS.pack(2_000_000_000, 0, 7, 1, 4, queue)
        one.writer.loader(index, counts + layout.LOADER_FACTS.pack(name.encode(), b"D", 2, 0, layout.ROLE_TRAINING))
    one.timeline.loaders = 3
    one.timeline.memory = (100, 200, 300, layout.UNKNOWN, 0, 0)
    one.timeline.write_state(one.now)
    view = View(collector)

    assert (2.0, 7, 2, 4) == tuple(
        view.value(f"loader_{name}", loader="val")
        for name in ("wait_seconds_total", "batches_total", "workers", "behind_batches_total")
    )
    assert (0, 3) == tuple(view.value("loader_queue_batches", loader=name) for name in ("val", "train#0"))
    assert view.value("loader_queue_batches", loader="train#1") is None
    assert (100, 200, 300) == tuple(
        view.value(f"torch_memory_{name}_bytes") for name in ("allocated", "reserved", "peak")
    )


@pytest.mark.parametrize("phase", ["evaluation", "checkpoint"])
def test_evaluation_and_checkpoints_are_no_standstill(
    collector: TrainerCollector, trainer: Callable[..., Any], context: Any, phase: str
) -> None:
    """Time in an evaluation or a checkpoint is not idle: while it lasts, and when it is over."""
    one = trainer(0)
    one.step(other=1.0)
    one.step(other=1.0)
    one.spend("other", 2.0)
    one.now += 1000
    before = one.timeline.set_base(layout.PHASES.index(phase), one.now)
    context.clock.now = one.now / 1e9 + 60
    view = View(collector)
    assert 2.0 == pytest.approx(view.value("step_idle_seconds"), abs=1e-3)
    assert {"checkpoint": 5, "evaluation": 6}[phase] == view.value("rank_state_code")
    one.now += 60_000_000_000
    one.timeline.set_base(before, one.now)
    one.timeline.write_state(one.now)
    context.clock.now = one.now / 1e9 + 3
    assert 5.0 == pytest.approx(View(collector).value("step_idle_seconds"), abs=1e-3)
    one.step(other=1.0)
    context.clock.now = one.now / 1e9 + 7

    assert 7.0 == pytest.approx(View(collector).value("step_idle_seconds"), abs=1e-3)


def test_a_rank_that_hangs_is_idle(collector: TrainerCollector, trainer: Callable[..., Any], context: Any) -> None:
    """A rank that waits for its peers for ever is idle, and the phase says in what."""
    one = trainer(0)
    one.step(other=1.0)
    one.now += 1000
    one.timeline.enter(layout.COMM, one.now)
    context.clock.now = one.now / 1e9 + 90
    view = View(collector)

    assert 90 == pytest.approx(view.value("step_idle_seconds"), abs=1e-3)
    assert "comm" == view.value("rank_phase")
    assert 90 == pytest.approx(view.value("rank_phase_seconds"), abs=1e-3)


def test_communication_is_split(collector: TrainerCollector, trainer: Callable[..., Any]) -> None:
    """The phase `comm` of the record is told as its two parts where all ranks are in view, else whole."""
    one, two = (trainer(rank, world_size=2, local_world_size=2) for rank in (0, 1))
    two.now = one.now
    one.step(forward=0.4, comm=0.6)
    two.step(forward=0.9, comm=0.1)
    view = View(collector)

    assert 0.5 == pytest.approx(view.value("step_phase_seconds_total", 0, phase="comm_late_peer"))
    assert 0.1 == pytest.approx(view.value("step_phase_seconds_total", 0, phase="comm_wire"))
    assert view.value("step_phase_seconds_total", 0, phase="comm") is None
    two.path.unlink()
    one.step(forward=0.4, comm=0.6)
    view = View(collector)
    assert 0.6 == pytest.approx(view.value("step_phase_seconds_total", 0, phase="comm"))
    assert 0.5 == pytest.approx(view.value("step_phase_seconds_total", 0, phase="comm_late_peer"))


def test_a_job_of_one_rank_has_nobody_to_talk_to(collector: TrainerCollector, trainer: Callable[..., Any]) -> None:
    """Where no communication was measured it is missing, but a job of one rank is known to have none."""
    one = trainer(0, world_size=1, local_world_size=1)
    one.step(forward=1.0)
    assert 0.0 == View(collector).value("step_phase_seconds_total", 0, phase="comm_wire")
    two = trainer(1, who=GONE, world_size=2, local_world_size=2)
    two.step(forward=1.0)
    view = View(collector)

    assert [None] * 3 == [view.value("step_phase_seconds_total", 1, phase=phase) for phase in COMM_PHASES]


@pytest.mark.parametrize(
    ("stage", "alive", "code"),
    [
        (layout.ATTACHED, True, 1),
        (layout.GROUP_INIT, True, 3),
        (layout.TRAINING, True, 4),
        (layout.FAILED, True, 8),
        (layout.FAILED, False, 8),
        (layout.TRAINING, False, 0),
        (layout.DETACHED, True, 0),
    ],
)
def test_states(collector: TrainerCollector, trainer: Callable[..., Any], stage: int, alive: bool, code: int) -> None:
    """A state is what the record says; how a rank ended without a word is unknown."""
    one = trainer(0, HERE if alive else GONE)
    one.timeline.stage = stage
    one.timeline.write_state(one.now)
    view = View(collector)

    assert (code, float(alive)) == (view.value("rank_state_code"), view.value("rank_up"))
    assert (view.value("step_idle_seconds"), alive) == (None, view.value("rank_phase") is not None)


def test_a_rank_whose_life_cannot_be_told(collector: TrainerCollector, trainer: Callable[..., Any]) -> None:
    """A rank of a namespace that is out of sight is neither up nor down."""
    trainer(0, HERE._replace(pid_namespace=1))
    view = View(collector)

    assert view.value("rank_up") is None
    assert ["rank_up"] == [signal for signal, _, _ in view.absent]


def test_a_job_is_told(collector: TrainerCollector, trainer: Callable[..., Any], node: Any) -> None:
    """World size, ranks seen and expected: from records, and from processes that have none."""
    trainer(4, world_size=8, local_rank=0, local_world_size=4)
    trainer(5, world_size=8, local_rank=1, local_world_size=4)
    node.processes[50] = (
        {"RANK": "6", "WORLD_SIZE": "8", "LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "4", "AIDIAG_JOB_ID": "j"},
        ["python", "-I", "train.py"],
    )
    view = View(collector)

    assert (8, 3, 2) == tuple(
        view.value(f"job_{name}", None) for name in ("world_size", "ranks_seen", "ranks_attached")
    )
    assert [4, 5, 6, 7] == view.ranks("rank_expected")
    assert [4, 5, 6] == view.ranks("rank_up")
    assert [("rank_shim_attached", 6, "python -I ignores PYTHONPATH")] == view.absent


def test_ranks_that_are_not_numbered_in_a_row() -> None:
    """Where ranks of a host are not neighbours, only those that were seen are expected."""

    def place(rank: int, local_rank: int | None, size: int | None = 2) -> PlaceInJob:
        return PlaceInJob("slurm", rank, 8, local_rank, size)

    assert {2, 3} == expected_ranks([place(2, 0)]) == expected_ranks([place(2, 0), place(3, 1)])
    assert {1, 5} == expected_ranks([place(1, 0), place(5, 1)])
    assert {3} == expected_ranks([place(3, None)])
    assert set() == expected_ranks([])


def test_a_rank_that_has_yet_to_attach(collector: TrainerCollector, node: Any) -> None:
    """A rank process with the shim in it and no record is starting."""
    node.files = {f"/proc/50/root{SHIM}/sitecustomize.py"}
    node.processes[50] = (
        {"RANK": "0", "WORLD_SIZE": "2", "AIDIAG_JOB_ID": "j", "PYTHONPATH": SHIM},
        ["python3", "train.py"],
    )
    view = View(collector)

    assert (1, 0, 1) == tuple(view.value(name) for name in ("rank_up", "rank_shim_attached", "rank_state_code"))
    assert (1, 0) == (view.value("job_ranks_seen", None), view.value("job_ranks_attached", None))


def test_a_shim_that_is_off(collector: TrainerCollector, folder: Path, node: Any) -> None:
    """The reason of a shim that is off is told once; one that could not write its rank is told by its process."""
    (folder / owner.file_name(HERE, "off", "no_space")).write_text('{"job_id": "j", "rank": 3, "reason": "full"}')
    view = View(collector)
    assert [("shim_off", 3, "full")] == view.events
    assert (1, 0) == (view.value("rank_up", 3), view.value("rank_shim_attached", 3))
    assert [] == View(collector).events
    (folder / owner.file_name(HERE, "off", "file_size_limit")).touch()
    node.processes[os.getpid()] = ({"RANK": "2", "WORLD_SIZE": "4", "AIDIAG_JOB_ID": "j"}, ["python3", "train.py"])
    collector._launched._scanned = float("-inf")

    assert [("shim_off", 2, "file size limit")] == View(collector).events


def test_notes_become_events_once(collector: TrainerCollector, trainer: Callable[..., Any]) -> None:
    """An exception and a hook that gave up are told once each."""
    one = trainer(1)
    one.writer.note("exception", {"type": "ValueError", "message": "bad sample", "where": "t.py:3", "step": 7})
    one.writer.note("hook_off", {"hook": "loader", "type": "KeyError", "message": "x"})
    one.writer.note("something_new", {"a": 1})
    one.timeline.write_state(one.now)
    view = View(collector)

    assert [
        ("rank_raised", 1, "ValueError"),
        ("shim_off", 1, "the loader hook gave up after KeyError: x"),
    ] == view.events
    assert [] == View(collector).events


def test_restarts(collector: TrainerCollector, trainer: Callable[..., Any]) -> None:
    """Restarts are what the launcher counts, or the records that earlier processes of the rank have left."""
    now = time.time()
    trainer(0, GONE, attached_unix=now - 20, started_unix=now - 20)
    trainer(0, GONE._replace(start_ticks=1), attached_unix=now - 10, started_unix=now - 10)
    trainer(0, attached_unix=now, started_unix=now)
    trainer(1, restart_count=4)
    view = View(collector)

    assert (2, 4) == (view.value("rank_restarts_total", 0), view.value("rank_restarts_total", 1))


def test_a_recorded_host_has_no_records(context: Context, node: Any) -> None:
    """Replaying a recorded host says that there is nothing to read, and never reads this one."""
    node.live = False
    with pytest.raises(UnavailableError):
        list(TrainerCollector(context).collect())


def test_all_jobs_of_a_host(context: Context, trainer: Callable[..., Any]) -> None:
    """Without a job all jobs of the host are told apart."""
    trainer(0)
    trainer(0, job_id="k")
    observations = list(TrainerCollector(replace(context, job=None)).collect())

    assert {"j", "k"} == {one.subject.job for one in observations if isinstance(one, Sample)}
