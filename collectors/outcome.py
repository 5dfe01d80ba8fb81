"""How a run of a collector ended, and what it tells of itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

from aidiag.collectors.collector import Clock, Collector
from aidiag.collectors.errors import CollectorError, HungError, NotPermittedError, UnavailableError
from aidiag.collectors.observation import Absent, Observation, Sample, labels
from aidiag.collectors.signal import Signal
from aidiag.collectors.subject import Subject

State = Literal["ok", "unavailable", "not_permitted", "failed", "hung"]

SIGNALS: tuple[Signal, ...] = (
    Signal(
        "collector_success",
        "gauge",
        "count",
        "host",
        "1 when the last run of a collector saw its source, 0 when it could not; absent where the source is not here",
        labels=("collector",),
        max_age_seconds=120.0,
    ),
    Signal(
        "collector_duration_seconds",
        "gauge",
        "seconds",
        "host",
        "How long the last run of a collector took, or has taken so far",
        labels=("collector",),
        max_age_seconds=120.0,
    ),
    Signal(
        "collector_last_success_timestamp_seconds",
        "gauge",
        "timestamp_seconds",
        "host",
        "When a collector last saw its source",
        labels=("collector",),
        max_age_seconds=1e9,
    ),
    Signal(
        "collector_timeouts_total",
        "counter",
        "count",
        "host",
        "Runs of a collector that did not return in time",
        labels=("collector",),
        max_age_seconds=1e9,
    ),
    Signal(
        "collector_helpers_abandoned",
        "gauge",
        "count",
        "host",
        "Helper processes that are stuck in the kernel and outlive their end",
        max_age_seconds=120.0,
    ),
    Signal(
        "event_kind_watched",
        "gauge",
        "count",
        "host",
        "1 where the source of events of a kind is read, so that silence means that none has happened",
        labels=("kind",),
        max_age_seconds=120.0,
    ),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The last run of a collector. `reason` and `remedy` are empty when it is ok.

    `watched` are the event kinds that it would have told of. `ended` is in monotonic seconds of the clock (of a hung run: the moment of asking), `last_success_unix` in Unix
    seconds, None where it has never succeeded.
    """

    collector: str
    state: State
    ended: float
    duration_seconds: float
    observations: tuple[Observation, ...] = ()
    watched: frozenset[str] = frozenset()
    reason: str = ""
    remedy: str = ""
    last_success_unix: float | None = None
    timeouts: int = 0


def collect_once(collector: Collector, clock: Clock, earlier: Outcome | None = None) -> Outcome:
    """Run a collector in this thread and say how it ended. Whatever it raises becomes an outcome; what it gave before
    it raised is kept.
    """
    started = clock.monotonic()
    seen: list[Observation] = []
    state: State = "ok"
    reason = remedy = ""
    watched: frozenset[str] = frozenset()
    try:
        seen.extend(collector.collect())
        watched = frozenset(collector.watched())
    except BaseException as error:  # noqa: BLE001  (a bug in one collector must not end its thread, let alone the rest)
        state, reason, remedy = ending(error)
    ended = clock.monotonic()
    last = earlier.last_success_unix if earlier else None
    timeouts = earlier.timeouts if earlier else 0
    return Outcome(
        collector=collector.name,
        state=state,
        ended=ended,
        duration_seconds=max(0.0, ended - started),
        observations=tuple(seen),
        watched=watched,
        reason=reason,
        remedy=remedy,
        last_success_unix=clock.unix() if state == "ok" else last,
        timeouts=timeouts + (state == "hung"),
    )


def ending(error: BaseException) -> tuple[State, str, str]:
    """The state, reason and remedy that an exception stands for."""
    match error:
        case UnavailableError():
            return "unavailable", error.reason, error.remedy
        case NotPermittedError():
            return "not_permitted", error.reason, error.remedy
        case HungError():
            return "hung", error.reason, error.remedy
        case CollectorError():
            return "failed", error.reason, error.remedy
        case PermissionError():
            return "not_permitted", str(error), ""
        case OSError():
            return "failed", str(error), ""
        case _:
            return "failed", f"{type(error).__name__}: {error}", "this is a bug in aidiag: please report it"


def about(
    outcome: Outcome, collector: Collector, host: Subject, watched: Collection[str] = ()
) -> Iterator[Observation]:
    """What a run tells: its observations, reasons for what it could not see, and its own figures.

    It could not see its signals, nor events of its kinds, but for those that another collector has `watched`.
    """
    yield from outcome.observations
    if outcome.state != "ok":
        given = {one.signal for one in outcome.observations if isinstance(one, Sample | Absent)}
        kinds = [kind.name for kind in collector.events if kind.name not in watched]
        for unseen in (*(signal.name for signal in collector.signals), *kinds):
            if unseen not in given:
                expected = outcome.state != "unavailable"
                yield Absent(unseen, host, outcome.reason, outcome.remedy, expected=expected)
    for kind in sorted(outcome.watched):
        yield Sample("event_kind_watched", host, 1.0, outcome.ended, labels(kind=kind))
    label = labels(collector=outcome.collector)
    if outcome.state == "unavailable":
        yield Absent("collector_success", host, outcome.reason, outcome.remedy, label, expected=False)
    else:
        yield Sample("collector_success", host, float(outcome.state == "ok"), outcome.ended, label)
    yield Sample("collector_duration_seconds", host, outcome.duration_seconds, outcome.ended, label)
    yield Sample("collector_timeouts_total", host, float(outcome.timeouts), outcome.ended, label)
    if outcome.last_success_unix is not None:
        yield Sample("collector_last_success_timestamp_seconds", host, outcome.last_success_unix, outcome.ended, label)
