"""Communication, split into waiting for a late peer and time on the wire."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aidiag.collectors.comm_split import PENDING_STEPS, CommSplit
from aidiag.collectors.records import RecordFinder, newest
from aidiag.trainer_shim import layout


class Job:
    """Ranks that step together."""

    def __init__(self, folder: Path, trainer: Callable[..., Any], ranks: int = 2, world_size: int = 2) -> None:
        self.ranks = [trainer(rank, world_size=world_size, local_world_size=ranks) for rank in range(ranks)]
        for one in self.ranks:
            one.now = self.ranks[0].now
        self.finder = RecordFinder([folder])
        self.split = CommSplit()

    def step(self, *comm: float, total: float = 1.0) -> None:
        """A step in which each rank computes for the rest of its time and then waits."""
        for rank, seconds in zip(self.ranks, comm, strict=False):
            rank.step(forward=total - seconds, comm=seconds)

    def seconds(self) -> list[Any]:
        """Communication of each rank by phase."""
        self.split.update(newest(self.finder.find()))
        return [pytest.approx(dict(self.split.seconds(("j", rank)))) for rank in range(len(self.ranks))]


def parts(late: float, wire: float) -> dict[str, float]:
    """Communication that could be split."""
    return {"comm_late_peer": late, "comm_wire": wire}


@pytest.fixture
def job(folder: Path, trainer: Callable[..., Any]) -> Job:
    """A job of two ranks, both in view."""
    return Job(folder, trainer)


def test_the_last_one_waits_for_the_wire_alone(job: Job) -> None:
    """The least wait of a step is the wire's; what others wait beyond it, they wait for the last."""
    job.step(0.6, 0.1)
    job.step(0.2, 0.5)

    assert [parts(0.5, 0.3), parts(0.3, 0.3)] == job.seconds()
    assert [parts(0.5, 0.3), parts(0.3, 0.3)] == job.seconds()


def test_a_step_waits_for_all_ranks(job: Job) -> None:
    """A step counts when every living rank has finished it, so that totals never go back."""
    job.step(0.6)
    assert [{}, {}] == job.seconds()
    job.ranks[1].step(forward=0.9, comm=0.1)

    assert [parts(0.5, 0.1), parts(0, 0.1)] == job.seconds()


def test_ranks_out_of_view_may_be_the_late_ones(folder: Path, trainer: Callable[..., Any]) -> None:
    """Two of four ranks are on another host: which of the four was late, and so what the wire took, nobody knows."""
    job = Job(folder, trainer, ranks=2, world_size=4)
    job.step(0.6, 0.5)
    job.step(0.2, 0.4)

    assert [{"comm": 0.8}, {"comm": 0.9}] == job.seconds()


def test_one_rank_of_its_host(folder: Path, trainer: Callable[..., Any]) -> None:
    """With one rank a host its waits are told whole, at once; a job of one rank has nobody to wait for."""
    job = Job(folder, trainer, ranks=1, world_size=2)
    job.step(0.4)
    assert [{"comm": 0.4}] == job.seconds()
    job.ranks[0].path.unlink()
    alone = Job(folder, trainer, ranks=1, world_size=1)
    alone.step(0.4)

    assert [parts(0, 0.4)] == alone.seconds()


def test_a_rank_that_comes_into_view(folder: Path, trainer: Callable[..., Any]) -> None:
    """What was told whole stays told whole, and what follows is split: no total ever goes back."""
    job = Job(folder, trainer)
    hidden = job.ranks[1].path.rename(folder / "elsewhere")
    job.step(0.6, 0.1)
    assert [{"comm": 0.6}, {}] == job.seconds()
    hidden.rename(job.ranks[1].path)
    job.step(0.2, 0.5)

    assert [{"comm": 0.6, **parts(0, 0.2)}, {"comm": 0.1, **parts(0.3, 0.2)}] == job.seconds()


def test_a_rank_that_has_stopped_does_not_hold_up_the_others(job: Job) -> None:
    """After many steps that one rank has not reported, the others are counted without it, and not split."""
    job.step(0.3, 0.1)
    for _ in range(PENDING_STEPS + 5):
        job.step(0.2)

    assert {**parts(0.2, 0.1), "comm": 5 * 0.2} == job.seconds()[0]


def test_steps_from_before_the_first_look(folder: Path, trainer: Callable[..., Any]) -> None:
    """Steps that the record has let go are in its totals alone: they are told whole."""
    job = Job(folder, trainer)
    for _ in range(layout.SECTIONS[layout.STEP].slots + 10):
        job.step(0.3, 0.1)
    ((one, two),) = [job.seconds()]

    kept = layout.SECTIONS[layout.STEP].slots - 1
    assert {**parts(0.2 * kept, 0.1 * kept), "comm": 11 * 0.3} == one
    assert {**parts(0, 0.1 * kept), "comm": 11 * 0.1} == two


def test_other_steps_of_the_same_number_are_not_compared(job: Job) -> None:
    """A rank that counts its steps anew makes other steps than its peers under the same numbers."""
    job.ranks[1].now += 50_000_000_000
    job.step(0.6, 0.1)

    assert [{"comm": 0.6}, {"comm": 0.1}] == job.seconds()
