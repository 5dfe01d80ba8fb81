"""The account of steps and phases."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from aidiag.trainer_shim import identity, layout, owner
from aidiag.trainer_shim.record import Record, read_record
from aidiag.trainer_shim.timeline import EXTENSIONS_WRITTEN, FLUSH_NS, OWNER_SILENT_NS, TICK_NS, Timeline
from aidiag.trainer_shim.writer import RecordWriter

MS = 1_000_000


class Trainer:
    """A timeline with a clock that only the test moves, and its record."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = 10**12
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.posix_fallocate(fd, 0, layout.FILE_BYTES)
        writer = RecordWriter(fd)
        os.close(fd)
        writer.identity({**identity.identity({}, "/"), **identity.process_identity(owner.this_process())})
        self.timeline = Timeline(writer, lambda: self.now)
        writer.publish()

    def spend(self, phase: int, milliseconds: int) -> None:
        """Be in a phase for a while."""
        self.timeline.enter(phase, self.now)
        self.now += milliseconds * MS
        self.timeline.leave(self.now)

    def record(self) -> Record:
        """What a reader sees now."""
        return read_record(str(self.path))


@pytest.fixture
def trainer(tmp_path: Path) -> Iterator[Trainer]:
    """A trainer that has begun its first step."""
    made = Trainer(tmp_path / "a.record")
    made.timeline.start(made.now)
    yield made
    made.timeline.writer.close()


def test_a_step_is_split(trainer: Trainer) -> None:
    """Time in phases goes to them, the rest of a step to `other`."""
    trainer.spend(layout.DATA_WAIT, 30)
    trainer.spend(layout.FORWARD, 10)
    trainer.now += 5 * MS
    trainer.timeline.optimizer_ended(1, trainer.now)
    (step,) = trainer.record().steps

    assert {"data_wait": 0.03, "forward": 0.01, "other": 0.005} == pytest.approx(step.phases)
    assert 0.045 == pytest.approx(step.seconds)


def test_one_optimizer_gives_one_step_a_call(trainer: Trainer) -> None:
    """Each call of the same optimizer ends a step."""
    for _ in range(3):
        trainer.now += MS
        trainer.timeline.optimizer_ended(1, trainer.now)

    assert 3 == trainer.record().state.steps


def test_two_optimizers_give_one_step_a_turn(trainer: Trainer) -> None:
    """A second optimizer extends the step of the first; its time is in the step."""
    for _ in range(3):
        trainer.now += 10 * MS
        trainer.timeline.optimizer_ended(1, trainer.now)
        trainer.now += 5 * MS
        trainer.timeline.optimizer_ended(2, trainer.now)
    record = trainer.record()

    assert 3 == record.state.steps
    assert [0.015] * 3 == pytest.approx([step.seconds for step in record.steps])


def test_a_batch_in_between_makes_two_steps(trainer: Trainer) -> None:
    """Two optimizers that each take a batch of their own make steps of their own."""
    for key in (1, 2, 1, 2):
        trainer.timeline.fed = True
        trainer.now += MS
        trainer.timeline.optimizer_ended(key, trainer.now)

    assert 4 == trainer.record().state.steps


def test_an_optimizer_a_parameter_is_one_step(trainer: Trainer) -> None:
    """Hundreds of optimizers that step in turn are one step, and are not all written."""
    written = 0
    step = trainer.timeline.writer.step

    class Counting:
        """Counts the writes of steps."""

        def __init__(self) -> None:
            self.state = trainer.timeline.writer.state
            self.stamp = trainer.timeline.writer.stamp
            self.identity_version = 1
            self.notes = 0
            self.close = trainer.timeline.writer.close

        def step(self, number: int, *fields: float) -> None:
            """Count and write."""
            nonlocal written
            written += 1
            step(number, *fields)

    trainer.timeline.writer = Counting()  # type: ignore[assignment]
    for _ in range(3):
        for key in range(500):
            trainer.timeline.optimizer_ended(key, trainer.now)

    assert 3 == trainer.record().state.steps
    assert written <= 3 * EXTENSIONS_WRITTEN


def test_a_skipped_step_is_counted_apart(trainer: Trainer) -> None:
    """A step that the scaler skipped has its place in the ring and is no step done."""
    trainer.timeline.optimizer_ended(1, trainer.now)
    trainer.now += MS
    trainer.timeline.end_step(trainer.now, skipped=True)
    record = trainer.record()

    assert (1, 1) == (record.state.steps, record.state.steps_skipped)
    assert [False, True] == [step.skipped for step in record.steps]


def test_the_first_step_is_marked(trainer: Trainer) -> None:
    """The first step holds start-up work, also when a second optimizer extends it."""
    trainer.timeline.optimizer_ended(1, trainer.now)
    trainer.timeline.optimizer_ended(2, trainer.now)
    trainer.timeline.optimizer_ended(1, trainer.now)

    assert [True, False] == [step.first for step in trainer.record().steps]


def test_a_base_phase_holds(trainer: Trainer) -> None:
    """What the user declared is where a hook comes back to, and within evaluation nothing is split."""
    before = trainer.timeline.set_base(layout.EVALUATION, trainer.now)
    assert trainer.timeline.claimed
    trainer.now += 7 * MS
    trainer.timeline.set_base(before, trainer.now)
    assert not trainer.timeline.claimed
    trainer.timeline.optimizer_ended(1, trainer.now)

    assert 0.007 == pytest.approx(trainer.record().steps[0].phases["evaluation"])


def test_a_long_step_is_seen_under_way(trainer: Trainer) -> None:
    """In a step of minutes the totals go on, as long as anything happens."""
    trainer.spend(layout.DATA_WAIT, 60_000)
    assert "data_wait" not in trainer.record().state.phase_seconds
    trainer.timeline.flush_if_old(trainer.now)

    assert 60.0 == pytest.approx(trainer.record().state.phase_seconds["data_wait"])
    trainer.now += FLUSH_NS // 2
    trainer.timeline.flush_if_old(trainer.now)
    assert 60.0 == pytest.approx(trainer.record().state.step_seconds)


def test_slow_facts_are_looked_at_once_a_second(trainer: Trainer) -> None:
    """The tick comes with the end of a step, not more often than once a second."""
    ticks: list[int] = []
    trainer.timeline.tick = ticks.append
    for _ in range(50):
        trainer.now += TICK_NS // 10
        trainer.timeline.optimizer_ended(1, trainer.now)

    assert 5 == len(ticks)


def test_another_thread_is_dropped_until_the_first_falls_silent(trainer: Trainer) -> None:
    """Steps of a second thread are counted as dropped; after a long silence that thread becomes the trainer."""
    trainer.timeline.optimizer_ended(1, trainer.now)
    answers: list[bool] = []

    def ask() -> None:
        answers.append(trainer.timeline.is_foreign_step(trainer.now))
        answers.append(trainer.timeline.is_foreign_step(trainer.now + OWNER_SILENT_NS + 1))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()

    assert [True, False] == answers
    assert 1 == trainer.timeline.dropped


def test_values_are_bounded(trainer: Trainer) -> None:
    """A trainer that tells thousands of values fills no more than their place."""
    trainer.timeline.tell_values({f"value{i}" * 20: float(i) for i in range(1000)})
    trainer.now += TICK_NS
    trainer.timeline.optimizer_ended(1, trainer.now)

    assert 0 < len(trainer.record().values) <= 16
