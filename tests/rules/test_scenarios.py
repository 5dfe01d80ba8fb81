"""All built-in rules together over a simulated job: noise raises nothing, a planted fault raises just itself.

The simulated job has two ranks in step with each other, with random jitter, loader workers that start anew each epoch
and checkpoints on rank 0; its samples come as the collectors give them (trainer 1 s, process 2 s, host 5 s).
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from aidiag.collectors.observation import Event, Observation, Place, Sample, labels
from aidiag.collectors.signal import Registry
from aidiag.collectors.subject import host, job, rank
from aidiag.rules.causes import arrange, links_of
from aidiag.rules.engine import judge
from aidiag.rules.finding import Finding
from aidiag.rules.loader import load_rules
from aidiag.rules.model import RuleBook
from aidiag.rules.tracker import Tracker
from aidiag.rules.window import Window

PHASES = (
    "data_wait", "h2d", "forward", "backward", "optimizer", "comm_late_peer", "comm_wire", "checkpoint", "evaluation", "other",
)  # fmt: skip
R = [rank(number, host="a", job="j") for number in range(2)]


@dataclass
class ToyJob:
    """Two ranks that train in step. `slow` adds seconds to a phase of a rank's step; `stops_at` ends all progress."""

    step_seconds: float
    seed: int = 1
    jitter: float = 0.5
    slow: dict[tuple[int, str], float] = field(default_factory=dict)
    dies: tuple[int, float] | None = None
    freezes: tuple[int, float] | None = None
    epoch_seconds: float = 30.0
    checkpoint_seconds: float = 45.0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._time = 4.0  # imports, process group
        self._totals = [dict.fromkeys((*PHASES, "steps", "step", "loader"), 0.0) for _ in R]
        self._recent = [deque[float](maxlen=256) for _ in R]
        self._next_epoch, self._next_checkpoint = self._time, self.checkpoint_seconds

    def _share(self, part: float) -> float:
        return self.step_seconds * part * (1 + self.jitter * self._random.uniform(-1, 1))

    def _step(self) -> None:
        epoch = self._time >= self._next_epoch
        saves = self._time >= self._next_checkpoint
        self._next_epoch += self.epoch_seconds * epoch
        self._next_checkpoint += self.checkpoint_seconds * saves
        own = []
        for number in range(2):
            phases = {
                "data_wait": self._random.expovariate(1 / (0.03 * self.step_seconds))
                + 0.5 * epoch * self._random.random(),
                "h2d": 0.0,
                "forward": self._share(0.3),
                "backward": self._share(0.45),
                "optimizer": self._share(0.08),
                "other": self._share(0.02),
                "checkpoint": 0.6 if saves and number == 0 else 0.0,
                "evaluation": 0.0,
            }
            for (slow, phase), seconds in self.slow.items():
                if slow == number:
                    phases[phase] += seconds * self._random.uniform(0.8, 1.2)
            if self._random.random() < 0.01:
                phases["forward"] += self.step_seconds  # a hiccup of the scheduler
            own.append(phases)
        wire = self._share(0.12)
        longest = max(sum(phases.values()) for phases in own)
        for totals, recent, phases in zip(self._totals, self._recent, own, strict=True):
            for phase, seconds in phases.items():
                totals[phase] += seconds
            totals["comm_wire"] += wire
            totals["comm_late_peer"] += longest - sum(phases.values())
            totals["loader"] += phases["data_wait"]
            totals["step"] += longest + wire
            totals["steps"] += 1
            recent.append(longest + wire)
        self._time += longest + wire

    def observations(self, now: float) -> Iterator[Observation]:
        """What the collectors see at a whole second."""
        end = min((fault[1] for fault in (self.dies, self.freezes) if fault), default=float("inf"))
        while self._time < min(now, end):
            self._step()
        yield Sample("job_world_size", job("j"), 2.0, now)
        yield Sample("job_ranks_seen", job("j"), 2.0, now)
        yield Sample("job_ranks_attached", job("j"), 2.0, now)
        for number, subject in enumerate(R):
            if self.dies and now >= self.dies[1] and (number == self.dies[0] or now >= self.dies[1] + 2):
                continue
            yield from self._rank(number, now)
            if now % 2 == 0:
                stopped = self.freezes is not None and self.freezes[0] == number and now >= self.freezes[1]
                yield Sample("rank_process_state", subject, "stopped" if stopped else "sleeping", now)
                yield Sample("rank_cpus_allowed", subject, 2.0, now)
                yield Sample("rank_oom_kills_total", subject, 0.0, now)
                yield Sample("rank_loader_workers_alive", subject, 2.0, now)
                yield Sample("rank_loader_workers_cpu_seconds_total", subject, 0.2 * min(now, end), now)
        if now % 5 == 0:
            for name, value in (("total", 24.0), ("available", 20.0)):
                yield Sample(f"host_memory_{name}_bytes", host("a"), value * 1024**3, now)
            for name, value in (("size", 12.0), ("available", 12.0)):
                yield Sample(f"host_shm_{name}_bytes", host("a"), value * 1024**3, now)

    def _rank(self, number: int, now: float) -> Iterator[Sample]:
        subject, totals, recent = R[number], self._totals[number], self._recent[number]
        yield Sample("rank_up", subject, 1.0, now)
        yield Sample("rank_shim_attached", subject, float(now > 4), now)
        yield Sample("rank_state_code", subject, 4.0 if recent else 3.0, now)
        yield Sample(
            "rank_info", subject, 1.0, now, labels(local_rank=str(number), gpu="", framework="torch", launcher="t")
        )
        if not recent:
            return
        yield Sample("steps_total", subject, totals["steps"], now)
        yield Sample("step_seconds_total", subject, totals["step"], now)
        yield Sample("step_last_seconds", subject, recent[-1], now)
        yield Sample("step_p99_seconds", subject, sorted(recent)[int(0.99 * (len(recent) - 1))], now)
        yield Sample("step_idle_seconds", subject, max(0.0, now - self._time), now)
        yield Sample("loader_wait_seconds_total", subject, totals["loader"], now, labels(loader="train"))
        yield Sample("loader_workers", subject, 2.0, now, labels(loader="train"))
        for phase in PHASES:
            yield Sample("step_phase_seconds_total", subject, totals[phase], now, labels(phase=phase))


@pytest.fixture(scope="module")
def book(registry: Registry) -> RuleBook:
    """All built-in rules."""
    return load_rules((), registry)


Watch = Callable[..., tuple[list[Finding], list[Finding]]]


@pytest.fixture
def watch(registry: Registry, book: RuleBook) -> Watch:
    """Watches a job for some seconds; gives the roots and consequences of all findings that were ever active."""

    def run(toy: ToyJob, seconds: int, events: tuple[Event, ...] = ()) -> tuple[list[Finding], list[Finding]]:
        window, tracker = Window(registry, unix_offset=0.0), Tracker(job="j")
        seen: dict[str, Finding] = {}
        waiting = list(events)
        for now in range(seconds):
            window.add_all(toy.observations(float(now)))
            while waiting and (waiting[0].time or 0.0) <= now:
                window.add(waiting.pop(0))
            seen |= {
                finding.id: finding for finding in tracker.update(judge(book.rules, window, float(now)), float(now))
            }
        return arrange(seen.values(), links_of(book.rules))

    return run


def alarms(findings: list[Finding]) -> list[tuple[str, tuple[int, ...]]]:
    """What would alarm: rule and ranks of findings above info."""
    return [(f.rule, f.culprit.ranks if f.culprit else ()) for f in findings if f.severity != "info"]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("step_seconds", [0.02, 0.05, 0.2, 1.5])
def test_a_healthy_noisy_job_raises_nothing(watch: Watch, step_seconds: float, seed: int) -> None:
    """Jitter, hiccups, worker starts and checkpoints of a healthy job raise no warning in two minutes."""
    roots, consequences = watch(ToyJob(step_seconds, seed), 120)

    assert [] == alarms([*roots, *consequences])


@pytest.mark.parametrize("step_seconds", [0.02, 0.05, 0.2, 1.5])
def test_its_twin_with_a_slow_loader_on_all_ranks(watch: Watch, step_seconds: float) -> None:
    """The same job with a slow loader is input bound, and nothing else."""
    slow = {(number, "data_wait"): 0.6 * step_seconds for number in range(2)}
    roots, consequences = watch(ToyJob(step_seconds, slow=slow), 60)

    assert [("input_bound", (0, 1))] == alarms(roots)
    assert [] == alarms(consequences)
    assert "loader train (2 worker" in roots[0].summary


@pytest.mark.parametrize("step_seconds", [0.02, 0.05, 0.2, 1.5])
def test_its_twin_with_a_slow_loader_on_one_rank(watch: Watch, step_seconds: float) -> None:
    """The same job with one slow loader has a straggler by its input, and no other straggler."""
    roots, consequences = watch(ToyJob(step_seconds, slow={(1, "data_wait"): 0.6 * step_seconds}), 60)

    assert [("straggler_input", (1,))] == alarms([*roots, *consequences])


@pytest.mark.parametrize("phase", ["forward", "backward", "other"])
def test_its_twin_with_a_slow_rank(watch: Watch, phase: str) -> None:
    """The same job with one slow rank has a straggler, whatever phase is slow."""
    roots, consequences = watch(ToyJob(0.1, slow={(0, phase): 0.05}), 60)

    assert [("straggler", (0,))] == alarms([*roots, *consequences])


def test_its_twin_in_which_a_rank_is_killed(watch: Watch) -> None:
    """A rank killed by SIGKILL is the root; what its peer prints and how it ends are consequences."""
    closed = Place("job.log", 12, "RuntimeError: Connection closed by peer [127.0.0.1]:4242")
    events = (
        Event("rank_exited", R[1], 40.2, {"exit_code": -9, "signal": 9, "pid": 2, "during_training": True}),
        Event("peer_connection_closed", R[0], 40.4, {"layer": "gloo"}, place=closed),
        Event("rank_raised", R[0], 40.4, {"type": "RuntimeError", "message": "Connection closed by peer"}),
        Event("rank_exited", R[0], 40.9, {"exit_code": 1, "signal": 0, "pid": 1, "during_training": True}),
    )
    roots, consequences = watch(ToyJob(0.05, dies=(1, 40.0)), 60, events)

    assert [("rank_killed", (1,))] == alarms(roots)
    assert [("peer_connection_closed", ())] == alarms(consequences)
    assert roots[0].id == consequences[0].explained_by
    assert [(closed.source, closed.line)] == [(e.source, e.line) for e in consequences[0].evidence if e.line]


def test_its_twin_in_which_a_rank_is_stopped(watch: Watch) -> None:
    """A stopped rank is the root of the missing progress."""
    roots, consequences = watch(ToyJob(0.05, freezes=(0, 30.0)), 50)

    assert [("rank_stopped", (0,))] == alarms(roots)
    assert ["no_progress"] == [rule for rule, _ in alarms(consequences)]
    assert roots[0].since is not None and roots[0].since <= 34
    assert consequences[0].found_at is not None and consequences[0].found_at <= 40


def test_a_job_that_ends_raises_nothing(watch: Watch) -> None:
    """Ranks that end with status 0 are no fault."""
    events = tuple(
        Event("rank_exited", subject, 40.0, {"exit_code": 0, "signal": 0, "pid": 1, "during_training": False})
        for subject in R
    )
    roots, consequences = watch(ToyJob(0.05, dies=(0, 40.0)), 60, events)

    assert [] == alarms([*roots, *consequences])
