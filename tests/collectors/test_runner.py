"""The runner: every end of a collector is an outcome, and one that hangs delays no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar

import pytest

from aidiag.collectors import COLLECTORS, registry, subject
from aidiag.collectors.collector import Collector, Context
from aidiag.collectors.errors import CollectorError, HungError, NotPermittedError, UnavailableError
from aidiag.collectors.live import LiveNode
from aidiag.collectors.observation import Absent, Observation, Sample
from aidiag.collectors.runner import SIGNALS, Outcome, Runner, observations, run_once
from aidiag.collectors.signal import EventKind, Signal

HOST = subject.host("a")


class FakeClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        """Seconds that the test sets."""
        return self.now

    def unix(self) -> float:
        """Seconds that the test sets, since 1970."""
        return 1_700_000_000.0 + self.now


class FakeCollector(Collector):
    """A collector that does what a test tells it to do."""

    name: ClassVar[str] = "fake"
    interval_seconds: ClassVar[float] = 0.01
    signals: ClassVar[tuple[Signal, ...]] = (
        Signal("speed", "gauge", "ratio", "host", "How fast"),
        Signal("height", "gauge", "ratio", "host", "How high"),
    )
    events: ClassVar[tuple[EventKind, ...]] = ()

    def __init__(self, context: Context, collect: Callable[[], Iterable[Observation]] = list) -> None:
        self._collect = collect
        self.runs = 0
        self.closed_by: list[str] = []

    def collect(self) -> Iterable[Observation]:
        """Do it."""
        self.runs += 1
        return self._collect()

    def close(self) -> None:
        """Say who closed it."""
        self.closed_by.append(threading.current_thread().name)


class CrashWatch(FakeCollector):
    """One that tells of crashes, and of fires."""

    name = "crashes"
    signals = ()
    events = (EventKind("crash", "host", "A crash", ()), EventKind("fire", "host", "A fire", ()))


class FireWatch(FakeCollector):
    """One that tells of fires only."""

    name = "fires"
    signals = ()
    events = (EventKind("fire", "host", "A fire", ()),)


class HungCollector(FakeCollector):
    """Another one, to hang beside the first."""

    name = "hung"


def fake(collect: Callable[[], Iterable[Observation]]) -> FakeCollector:
    """A collector that does this."""
    return FakeCollector(Context(LiveNode()), collect)


def waiting(gate: threading.Event) -> HungCollector:
    """A collector that gives its reading only when the gate opens."""

    def collect() -> list[Observation]:
        gate.wait(60)
        return speed()

    return HungCollector(Context(LiveNode()), collect)


def speed() -> list[Observation]:
    """One reading."""
    return [Sample("speed", HOST, 1.0, 5.0)]


def raising(error: BaseException) -> Callable[[], Iterable[Observation]]:
    """A collector that gives a reading and then raises."""

    def collect() -> Iterator[Observation]:
        yield from speed()
        raise error

    return collect


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What hanging collectors wait for; opened in the end, so that their threads do not outlive the test."""
    gate = threading.Event()
    yield gate
    gate.set()


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another thread does."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.005)


def told(outcome: Outcome, collector: FakeCollector) -> dict[str, Sample | Absent]:
    """What an outcome tells, by signal."""
    seen = observations({collector.name: outcome}, [collector], "a")
    return {one.signal: one for one in seen if isinstance(one, Sample | Absent)}


def test_good_run() -> None:
    """A run that returns is ok, with its readings, its duration and the time of its success."""
    clock, collector = FakeClock(), fake(speed)
    outcome = run_once([collector], clock=clock)["fake"]

    assert ("ok", tuple(speed()), "") == (outcome.state, outcome.observations, outcome.reason)
    assert clock.unix() == outcome.last_success_unix
    assert {"speed", "collector_success", "collector_duration_seconds"} < set(told(outcome, collector))
    success = told(outcome, collector)["collector_success"]
    assert isinstance(success, Sample)
    assert (1.0, (("collector", "fake"),), HOST) == (success.value, success.labels, success.subject)


@pytest.mark.parametrize(
    ("error", "state", "reason"),
    [
        (NotPermittedError("perf is locked", "ask root"), "not_permitted", "perf is locked"),
        (PermissionError(13, "Permission denied", "/dev/x"), "not_permitted", "Permission denied"),
        (CollectorError("broken"), "failed", "broken"),
        (OSError(5, "Input/output error", "/sys/x"), "failed", "/sys/x"),
        (KeyError("cpu"), "failed", "KeyError: 'cpu'"),
        (RecursionError("deep"), "failed", "RecursionError: deep"),
        (SystemExit(3), "failed", "SystemExit: 3"),
        (HungError("statvfs(/data) has not returned for 2 s"), "hung", "statvfs(/data)"),
    ],
)
def test_every_error_is_an_outcome(error: BaseException, state: str, reason: str) -> None:
    """Whatever a collector raises is named; what it gave before stays, the rest is absent with that reason."""
    collector = fake(raising(error))
    outcome = run_once([collector])["fake"]
    seen = told(outcome, collector)

    assert state == outcome.state
    assert reason in outcome.reason
    assert Sample("speed", HOST, 1.0, 5.0) == seen["speed"]
    assert Absent("height", HOST, outcome.reason, outcome.remedy, expected=True) == seen["height"]
    assert isinstance(seen["collector_success"], Sample)
    assert 0.0 == seen["collector_success"].value


def test_unavailable_is_not_amiss() -> None:
    """Hardware that is not there gives no failure: its signals and its success are absent as expected."""
    collector = fake(raising(UnavailableError("no GPU", "none needed")))
    seen = told(run_once([collector])["fake"], collector)

    assert Absent("height", HOST, "no GPU", "none needed", expected=False) == seen["height"]
    absent = seen["collector_success"]
    assert isinstance(absent, Absent)
    assert not absent.expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [(NotPermittedError("closed", "ask root"), True), (UnavailableError("no such thing", "ask root"), False)],
)
def test_events_that_cannot_be_seen_are_absent(error: CollectorError, expected: bool) -> None:
    """No event proves nothing where the source is not read: the kind is absent with the reason, as a signal is."""
    blind = CrashWatch(Context(LiveNode()), raising(error))
    seen = observations(run_once([blind]), [blind], "a")

    for kind in ("crash", "fire"):
        assert Absent(kind, HOST, error.reason, "ask root", expected=expected) in seen
    assert not [one for one in seen if isinstance(one, Sample) and one.signal == "event_kind_watched"]


def test_an_event_kind_that_somebody_else_watches_is_not_absent() -> None:
    """Of two sources that tell of one kind it is enough that one is read; what is watched is told."""
    pair = [CrashWatch(Context(LiveNode()), raising(CollectorError("broken"))), FireWatch(Context(LiveNode()))]
    seen = observations(run_once(pair), pair, "a")

    assert {"crash"} == {one.signal for one in seen if isinstance(one, Absent)}
    watched = [one.labels for one in seen if isinstance(one, Sample) and one.signal == "event_kind_watched"]
    assert [(("kind", "fire"),)] == watched


def test_what_a_hung_collector_would_tell_is_absent(gate: threading.Event) -> None:
    """While it hangs, its kinds are not watched, though they were before."""
    clock = FakeClock()
    waits: list[bool] = []

    def collect() -> list[Observation]:
        if waits:
            gate.wait(60)
        return []

    collector = FireWatch(Context(LiveNode()), collect)
    runner = Runner([collector], host="a", clock=clock, deadline_seconds=10.0)
    runner.start()
    until(lambda: collector.runs >= 2)
    assert "event_kind_watched" in {one.signal for one in runner.poll() if isinstance(one, Sample)}
    waits.append(True)
    runs = collector.runs
    until(lambda: collector.runs > runs)
    time.sleep(0.05)
    clock.now += 31
    runner.poll()
    clock.now += 31

    seen = runner.poll()
    assert ["fire"] == [one.signal for one in seen if isinstance(one, Absent)]
    assert "event_kind_watched" not in {one.signal for one in seen if isinstance(one, Sample)}
    runner.stop()


def test_logs_watch_for_nothing() -> None:
    """What happened need not stand in a log, so that the silence of logs hides no kernel log that cannot be read."""
    context = Context(LiveNode())
    assert [] == list(COLLECTORS["logs"](context).watched())
    assert "xid" in COLLECTORS["kmsg"](context).watched()


def test_collectors_are_closed_at_the_end(gate: threading.Event) -> None:
    """Once, by the thread that ran them; one that hangs is left alone, and a stop does not wait for it."""
    single, lively, hung = fake(speed), fake(speed), waiting(gate)
    run_once([single])
    until(lambda: single.closed_by == ["collect-fake"])

    runner = Runner([lively, hung], host="a")
    runner.start()
    until(lambda: lively.runs >= 2 and hung.runs == 1)
    assert [] == lively.closed_by
    runner.stop()
    until(lambda: lively.closed_by == ["collect-fake"])
    assert [] == hung.closed_by
    gate.set()
    until(lambda: hung.closed_by == ["collect-hung"])


def test_check_does_not_wait_for_a_hung_collector(gate: threading.Event) -> None:
    """After the budget the hung one is reported as such, the others are complete."""
    hung = waiting(gate)
    outcomes = run_once([hung, fake(speed)], deadline_seconds=0.2)

    assert {"hung": "hung", "fake": "ok"} == {name: outcome.state for name, outcome in outcomes.items()}
    assert "the hung collector has not returned for 0 s" == outcomes["hung"].reason
    assert 1 == outcomes["hung"].timeouts


def test_no_budget_at_all(gate: threading.Event) -> None:
    """Even without any time, every collector has an outcome."""
    hung = waiting(gate)

    assert "hung" == run_once([hung], deadline_seconds=0.0)["hung"].state


def test_each_runs_at_its_interval() -> None:
    """Collectors run again and again, and what they see is handed over once."""
    collector = fake(speed)
    runner = Runner([collector], host="a")
    runner.start()
    until(lambda: collector.runs >= 3)
    runner.stop()
    until(lambda: not any(thread.name == "collect-fake" for thread in threading.enumerate()))

    assert collector.runs == sum(one == Sample("speed", HOST, 1.0, 5.0) for one in runner.poll())
    assert [] == runner.poll()
    assert "ok" == runner.outcomes()["fake"].state


def test_hung_collector_delays_no_other(gate: threading.Event) -> None:
    """While one hangs the other goes on; the hung one is told with its age, and never started a second time."""
    clock = FakeClock()
    hung = waiting(gate)
    lively = fake(speed)
    runner = Runner([hung, lively], host="a", clock=clock, deadline_seconds=10.0)
    runner.start()
    until(lambda: lively.runs >= 3 and hung.runs == 1)
    assert not any(isinstance(one, Absent) for one in runner.poll())

    clock.now += 31
    seen = runner.poll()

    assert "hung" == runner.outcomes()["hung"].state
    assert "the hung collector has not returned for 31 s" == runner.outcomes()["hung"].reason
    assert 1 == hung.runs
    assert {"speed", "height"} == {one.signal for one in seen if isinstance(one, Absent)}
    assert {1.0} == {
        one.value
        for one in seen
        if isinstance(one, Sample)
        and (one.signal, one.labels) == ("collector_timeouts_total", (("collector", "hung"),))
    }
    runs = lively.runs
    until(lambda: lively.runs >= runs + 3)
    runner.stop()


def test_hung_collector_comes_back(gate: threading.Event) -> None:
    """When the call returns after all, the collector goes on; its time out stays counted."""
    clock = FakeClock()
    slow = waiting(gate)
    runner = Runner([slow], host="a", clock=clock, deadline_seconds=10.0)
    runner.start()
    until(lambda: slow.runs == 1)
    clock.now += 20
    assert "hung" == runner.outcomes()["hung"].state

    gate.set()
    until(lambda: slow.runs >= 3)
    runner.stop()
    outcome = runner.outcomes()["hung"]

    assert ("ok", 1) == (outcome.state, outcome.timeouts)
    assert Sample("speed", HOST, 1.0, 5.0) in runner.poll()


def test_success_is_remembered_through_failures() -> None:
    """The time of the last success stays while a collector fails."""
    clock = FakeClock()
    ends: list[Exception] = []

    def collect() -> Iterable[Observation]:
        if ends:
            raise ends[0]
        return speed()

    collector = fake(collect)
    runner = Runner([collector], host="a", clock=clock)
    runner.start()
    until(lambda: "fake" in runner.outcomes())
    ends.append(CollectorError("gone"))
    until(lambda: runner.outcomes()["fake"].state == "failed")
    clock.now += 50
    runner.stop()

    assert 1_700_000_100.0 == runner.outcomes()["fake"].last_success_unix


def test_own_signals_are_in_the_registry() -> None:
    """What the runner tells of itself is declared as the collectors' signals are."""
    assert {signal.name for signal in SIGNALS} <= set(registry().signals)
