"""Runs collectors: once for a check, or each at its own interval beside a job. One that hangs delays no other."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from aidiag.collectors import subject
from aidiag.collectors.collector import Clock, Collector, SystemClock
from aidiag.collectors.helper import abandoned_count
from aidiag.collectors.observation import Observation, Sample
from aidiag.collectors.outcome import SIGNALS, Outcome, about, collect_once

__all__ = ["SIGNALS", "Outcome", "Runner", "observations", "run_once"]

DEADLINE_SECONDS = 10.0
"""How long a run may take before it counts as hung: longer than the deadlines of the helpers that it asks."""

CLOSE_SECONDS = 1.0
"""How long a stop waits for collectors to let go of what they hold."""


class Unit:
    """A collector and the one thread that runs it, now or at its interval.

    Everything but the thread itself may ask at any time and is answered at once.
    """

    def __init__(
        self, collector: Collector, clock: Clock, deadline_seconds: float, interval_seconds: float | None = None
    ) -> None:
        self.collector = collector
        self.interval = interval_seconds or collector.interval_seconds
        self._clock, self._deadline = clock, deadline_seconds
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        self._started: float | None = None
        self._outcome: Outcome | None = None
        self._untold: list[Outcome] = []
        self._hung_told = float("-inf")

    def start(self, *, repeat: bool) -> None:
        """Start the thread, once: a collector that hangs is never run a second time beside itself."""
        if self._thread is None:
            target = self._loop if repeat else self._once
            self._started = self._clock.monotonic()
            self._thread = threading.Thread(target=target, name=f"collect-{self.collector.name}", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Let the thread end after the run under way; it is not waited for."""
        self._stop.set()

    def join(self, seconds: float) -> None:
        """Wait for the end of the thread, where no run is under way that may hang."""
        if self._thread is not None and self._started is None:
            self._thread.join(max(0.0, seconds))

    def wait(self, seconds: float) -> bool:
        """Wait for the end of a first run."""
        return self._done.wait(max(0.0, seconds))

    def outcome(self, deadline_seconds: float | None = None) -> Outcome | None:
        """The run under way where it is past its deadline, else the last one; None before the first has ended."""
        with self._lock:
            return self._current(self._deadline if deadline_seconds is None else deadline_seconds)

    def take(self) -> list[Outcome]:
        """The runs that have ended since the last call, and the one under way where it hangs: that one is told again
        at each interval.
        """
        now = self._clock.monotonic()
        with self._lock:
            taken, self._untold = self._untold, []
            current = self._current(self._deadline)
            under_way = current is not None and current is not self._outcome
            if current and under_way and now - self._hung_told >= self.interval:
                self._hung_told = now
                taken.append(current)
            return taken

    def _current(self, deadline: float) -> Outcome | None:
        if self._started is None:
            return self._outcome
        now = self._clock.monotonic()
        age = now - self._started
        if age < deadline:
            return self._outcome
        last = self._outcome
        return Outcome(
            collector=self.collector.name,
            state="hung",
            ended=now,
            duration_seconds=age,
            reason=f"the {self.collector.name} collector has not returned for {age:.0f} s",
            last_success_unix=last.last_success_unix if last else None,
            timeouts=(last.timeouts if last else 0) + 1,
        )

    def _loop(self) -> None:
        while not self._stop.is_set():
            started = self._clock.monotonic()
            self._run()
            rest = started + self.interval - self._clock.monotonic()
            self._stop.wait(max(0.05, rest))
        self._close()

    def _once(self) -> None:
        self._run()
        self._close()

    def _close(self) -> None:
        with contextlib.suppress(Exception):  # it has nothing more to tell, and nobody would hear it
            self.collector.close()

    def _run(self) -> None:
        with self._lock:
            self._started = self._clock.monotonic()
        outcome = collect_once(self.collector, self._clock, self._outcome)
        with self._lock:
            self._started = None
            if outcome.duration_seconds >= self._deadline and outcome.state != "hung":
                outcome = replace(outcome, timeouts=outcome.timeouts + 1)
            self._outcome = outcome
            self._untold.append(outcome)
        self._done.set()


def run_once(
    collectors: Iterable[Collector], *, clock: Clock | None = None, deadline_seconds: float = DEADLINE_SECONDS
) -> dict[str, Outcome]:
    """Run each collector once, side by side, and say how each ended by its name.

    Those that have not returned when `deadline_seconds` are over are hung; their threads are left behind.
    """
    clock = clock or SystemClock()
    end = clock.monotonic() + deadline_seconds
    units = [Unit(collector, clock, deadline_seconds) for collector in collectors]
    for unit in units:
        unit.start(repeat=False)
    for unit in units:
        unit.wait(end - clock.monotonic())
    return {unit.collector.name: outcome for unit in units if (outcome := unit.outcome(0.0))}


def observations(outcomes: Mapping[str, Outcome], collectors: Iterable[Collector], host: str) -> list[Observation]:
    """All that a run of collectors tells, with their own figures and the reasons for what is absent."""
    here = subject.host(host)
    by_name = {collector.name: collector for collector in collectors}
    watched = _watched(outcomes.values())
    told: list[Observation] = []
    for name, outcome in outcomes.items():
        told.extend(about(outcome, by_name[name], here, watched))
    return told


def _watched(outcomes: Iterable[Outcome]) -> frozenset[str]:
    """The event kinds that any collector watches."""
    return frozenset(kind for outcome in outcomes for kind in outcome.watched)


class Runner:
    """Runs collectors at their intervals, each in a thread of its own, from `start` to `stop`.

    `intervals` are seconds by collector name, for those that an operator wants otherwise.
    """

    def __init__(
        self,
        collectors: Iterable[Collector],
        *,
        host: str,
        clock: Clock | None = None,
        deadline_seconds: float = DEADLINE_SECONDS,
        intervals: Mapping[str, float] | None = None,
    ) -> None:
        self._host = subject.host(host)
        self._clock = clock or SystemClock()
        wanted = intervals or {}
        self._units = [
            Unit(collector, self._clock, max(deadline_seconds, 2 * interval), interval)
            for collector in collectors
            for interval in [wanted.get(collector.name, collector.interval_seconds)]
        ]

    def start(self) -> None:
        """Start the threads."""
        for unit in self._units:
            unit.start(repeat=True)

    def stop(self) -> None:
        """Let the threads end and close their collectors. They are waited for shortly; one that hangs would never come."""
        for unit in self._units:
            unit.stop()
        end = time.monotonic() + CLOSE_SECONDS
        for unit in self._units:
            unit.join(end - time.monotonic())

    def poll(self) -> list[Observation]:
        """What has been seen since the last call; returns at once."""
        told: list[Observation] = []
        taken = [(unit, outcome) for unit in self._units for outcome in unit.take()]
        watched = _watched(self.outcomes().values()) if taken else frozenset()
        for unit, outcome in taken:
            told.extend(about(outcome, unit.collector, self._host, watched))
        if told:
            count = float(abandoned_count())
            told.append(Sample("collector_helpers_abandoned", self._host, count, self._clock.monotonic()))
        return told

    def outcomes(self) -> dict[str, Outcome]:
        """How the last run of each collector ended, or that the run under way hangs; returns at once."""
        return {unit.collector.name: outcome for unit in self._units if (outcome := unit.outcome())}
