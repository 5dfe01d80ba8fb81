"""Communication, split into waiting for a late peer and time on the wire."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aidiag.collectors.comm_split import PENDING_STEPS, CommSplit
from aidiag.collectors.records import RecordFinder, newest


class Job:
    """Two ranks that step together."""

    def __init__(self, folder: Path, trainer: Callable[..., Any]) -> None:
        self.ranks = [trainer(0), trainer(1)]
        self.ranks[1].now = self.ranks[0].now
        self.finder = RecordFinder([folder])
        self.split = CommSplit()

    def step(self, *comm: float, total: float = 1.0) -> None:
        """A step in which each rank computes for the rest of its time and then waits."""
        for rank, seconds in zip(self.ranks, comm, strict=False):
            rank.step(forward=total - seconds, comm=seconds)

    def seconds(self) -> list[Any]:
        """Late and wire of each rank."""
        self.split.update(newest(self.finder.find()))
        return [pytest.approx(self.split.seconds(("j", rank))) for rank in range(len(self.ranks))]


@pytest.fixture
def job(folder: Path, trainer: Callable[..., Any]) -> Job:
    """A job."""
    return Job(folder, trainer)


def test_the_last_one_waits_for_the_wire_alone(job: Job) -> None:
    """The least wait of a step is the wire's; what others wait beyond it, they wait for the last."""
    job.step(0.6, 0.1)
    job.step(0.2, 0.5)

    assert [(0.5, 0.3), (0.3, 0.3)] == job.seconds()
    assert [(0.5, 0.3), (0.3, 0.3)] == job.seconds()


def test_a_step_waits_for_all_ranks(job: Job) -> None:
    """A step counts when every living rank has finished it, so that totals never go back."""
    job.step(0.6)
    assert [(0, 0), (0, 0)] == job.seconds()
    job.ranks[1].step(forward=0.9, comm=0.1)

    assert [(0.5, 0.1), (0, 0.1)] == job.seconds()


def test_one_rank_alone_has_no_late_peer(folder: Path, trainer: Callable[..., Any]) -> None:
    """With one rank in view nothing says who was late."""
    job = Job(folder, trainer)
    job.ranks[1].path.unlink()
    del job.ranks[1]
    job.step(0.4)

    assert [(0, 0.4)] == job.seconds()


def test_a_rank_that_has_stopped_does_not_hold_up_the_others(job: Job) -> None:
    """After many steps that one rank has not reported, the others are counted without it."""
    job.step(0.3, 0.1)
    for _ in range(PENDING_STEPS + 5):
        job.step(0.2)

    late, wire = job.seconds()[0].expected
    assert 0.2 == pytest.approx(late)
    assert 0.1 + 5 * 0.2 == pytest.approx(wire)


def test_other_steps_of_the_same_number_are_not_compared(job: Job) -> None:
    """A rank that counts its steps anew makes other steps than its peers under the same numbers."""
    job.ranks[1].now += 50_000_000_000
    job.step(0.6, 0.1)

    assert [(0, 0.6), (0, 0.1)] == job.seconds()
