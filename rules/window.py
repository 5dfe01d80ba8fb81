"""What the rules look at: the last minutes of every signal, what is absent and why, and what happened."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from aidiag.collectors.observation import Absent, Event, Labels, Observation, Sample, labels
from aidiag.collectors.signal import Registry
from aidiag.collectors.subject import Subject, SubjectKind, host
from aidiag.rules.history.absences import Absences
from aidiag.rules.history.counter import Counter
from aidiag.rules.history.events import EventLog, Run
from aidiag.rules.history.relations import Relations
from aidiag.rules.history.series import Gauge, Series
from aidiag.rules.undecided import Undecided, undecided

HORIZON_SECONDS = 900.0
EVENT_HORIZON_SECONDS = 3_600.0
LARGEST_SERIES = 20_000
_SWEEP_EVERY = 4_096
WATCHED = "event_kind_watched"
"""The signal with which the runner tells what kinds of events it would see (collectors/outcome.py)."""


class Window:
    """A bounded memory of observations.

    Samples are remembered for `horizon_seconds`, events for `event_horizon_seconds` (None: for ever, for a job that is
    judged after its end). `unix_offset` turns the time base into Unix seconds, for events that state only those.
    `version` changes with every observation, `generation` only when series or subjects come or go.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        horizon_seconds: float = HORIZON_SECONDS,
        event_horizon_seconds: float | None = EVENT_HORIZON_SECONDS,
        unix_offset: float | None = None,
    ) -> None:
        self.registry = registry
        self.unix_offset = unix_offset
        self.version = 0
        self.generation = 0
        self.dropped: dict[str, int] = {}
        """How many observations of a signal or event kind were left out: not declared, or too many at once."""
        self.kept: dict[str, Any] = {}
        """What the engine keeps for this window from one judgement to the next: compiled rules by their id."""
        self._horizon, self._event_horizon = horizon_seconds, event_horizon_seconds
        self._series: dict[tuple[str, Subject, Labels], Series[Any]] = {}
        self._by_subject: dict[tuple[str, Subject], list[Series[Any]]] = {}
        self._absences = Absences(horizon_seconds)
        self._events: dict[str, EventLog] = {}
        self._relations = Relations()
        self._newest: float | None = None
        self._sweep_at = _SWEEP_EVERY

    # taking in

    def add(self, observation: Observation) -> None:
        """Take an observation. One of a signal or event kind that is not in the registry is counted and left out."""
        self.version += 1
        if isinstance(observation, Sample):
            series = self._series.get((observation.signal, observation.subject, observation.labels))
            if series is None:
                series = self._new_series(observation)
                if series is None:
                    return
            time = observation.time
            if self._newest is None or time > self._newest:
                self._newest = time
            if observation.signal in self._absences.said:
                self._absences.end(observation)
            if observation.signal == WATCHED and observation.value:
                self._now_watched(observation)
            series.add(time, observation.value)
        elif isinstance(observation, Event):
            self._add_event(observation)
        else:
            self._add_absent(observation)
        if self.version >= self._sweep_at and self._newest is not None:
            self.forget(self._newest)

    def add_all(self, observations: Iterable[Observation]) -> None:
        """Take observations in the order of their time."""
        for observation in observations:
            self.add(observation)

    def _new_series(self, sample: Sample) -> Series[Any] | None:
        signal = self.registry.signals.get(sample.signal)
        if signal is None or len(self._series) >= LARGEST_SERIES:
            self._drop(sample.signal)
            return None
        kind: Callable[..., Series[Any]] = Counter if signal.type == "counter" else Gauge
        series = kind(signal, sample.subject, sample.labels, self._horizon)
        self._series[sample.signal, sample.subject, sample.labels] = series
        self._by_subject.setdefault((sample.signal, sample.subject), []).append(series)
        self._see(sample.subject)
        if sample.signal == "rank_info":
            self._relations.set_gpu(sample.subject, dict(sample.labels).get("gpu", ""))
        self.generation += 1
        return series

    def _add_event(self, event: Event) -> None:
        if event.kind not in self.registry.events:
            self._drop(event.kind)
            return
        subject = event.subject and self._relations.resolved(event.subject)
        if not self._events.setdefault(event.kind, EventLog()).add(event, subject, self._newest):
            self._drop(event.kind)
        elif subject is not None:
            self._see(subject)

    def _add_absent(self, absent: Absent) -> None:
        if absent.signal not in self.registry.signals and absent.signal not in self.registry.events:
            self._drop(absent.signal)
            return
        self._absences.add(absent, self._newest)
        self._see(absent.subject)

    def _now_watched(self, watched: Sample) -> None:
        kind = dict(watched.labels).get("kind", "")
        if kind in self._absences.said:
            self._absences.end(replace(watched, signal=kind, labels=()))

    def _drop(self, name: str) -> None:
        self.dropped[name] = self.dropped.get(name, 0) + 1

    def _see(self, subject: Subject) -> None:
        if self._relations.knows(subject):
            return
        self._relations.add(subject)
        if subject.kind == "rank" and subject.host:
            for homeless in (Subject("rank", subject.name, job=subject.job), Subject("rank", subject.name)):
                if self._relations.knows(homeless) and self._relations.resolved(homeless) == subject:
                    self._relations.discard(homeless)
                    for log in self._events.values():
                        log.rename(homeless, subject)
        self.generation += 1

    def forget(self, now: float) -> None:
        """Drop the series, absences and subjects that nothing has been heard of for the horizon, and old events."""
        self._sweep_at = self.version + _SWEEP_EVERY
        before = len(self._series)
        for key, series in list(self._series.items()):
            if series.times and now - series.times[-1] > self._horizon + series.max_age:
                del self._series[key]
                same = self._by_subject[key[:2]]
                same.remove(series)
                if not same:
                    del self._by_subject[key[:2]]
        gone = before - len(self._series) + self._absences.forget(now)
        if self._event_horizon is not None:
            oldest = now - self._event_horizon
            gone += sum(log.forget_before(oldest, self.time_of) for log in self._events.values())
        if not gone:
            return
        living: dict[Subject, None] = dict.fromkeys(subject for _, subject in self._by_subject)
        living.update(dict.fromkeys(self._absences.subjects()))
        for log in self._events.values():
            living.update(dict.fromkeys(subject for subject in log.runs if subject is not None))
        self._relations.rebuild(living)
        self.generation += 1

    # asking

    def series(self, signal: str, subject: Subject, labels: Labels = ()) -> Series[Any] | None:
        """The series of a signal, None where there has been no reading."""
        return self._series.get((signal, subject, labels))

    def series_of(self, signal: str, subject: Subject) -> Sequence[Series[Any]]:
        """The series of a signal for all its labels."""
        return self._by_subject.get((signal, subject), ())

    def missing(self, signal: str, subject: Subject | None, labels: Labels = ()) -> Undecided:
        """Why there is no reading of a signal: what its collector said about it, the host or the job."""
        absent = self.absence(signal, subject, labels)
        what = f"{signal} of {subject}" if subject else signal
        if absent is None:
            return undecided(what, "nothing has reported it")
        return undecided(what, absent.reason, absent.remedy, expected=absent.expected)

    def absence(self, signal: str, subject: Subject | None, labels: Labels = ()) -> Absent | None:
        """What a collector said about the absence of a signal."""
        if signal not in self._absences.said:
            return None
        if subject is None:
            return next(self._absences.of(signal), None)
        for place in (subject, self.related(subject, "host"), self.related(subject, "job")):
            found = place and self._absences.about(signal, place, labels)
            if found:
                return found
        return None if subject.host else next(self._absences.of(signal), None)

    def sees_all(self, kinds: Collection[str]) -> bool:
        """Whether nobody has said that such signals or events cannot be seen somewhere."""
        return self._absences.said.keys().isdisjoint(kinds)

    def absences(self, signal: str) -> Iterator[Absent]:
        """Everything that collectors said about the absence of a signal."""
        return self._absences.of(signal)

    def watched(self, kind: str, name: str, now: float) -> bool:
        """Whether a collector of the host called `name` would have told of events of a kind."""
        series = self._series.get((WATCHED, host(name), labels(kind=kind)))
        return series is not None and series.fresh(now) and bool(series.value(now))

    def events(self, kind: str) -> dict[Subject | None, Run]:
        """The events of a kind by subject."""
        log = self._events.get(kind)
        return log.runs if log else {}

    def events_of(self, kind: str, subject: Subject) -> Iterable[Run]:
        """The events of a kind that happened to a subject, to what it belongs to or uses, or to what it holds."""
        log = self._events.get(kind)
        return log.concerning(subject, self._relations) if log else ()

    def time_of(self, event: Event) -> float | None:
        """When an event happened, in seconds of the time base."""
        if event.time is not None:
            return event.time
        if event.unix is not None and self.unix_offset is not None:
            return event.unix - self.unix_offset
        return None

    def subjects(self, kind: SubjectKind) -> Sequence[Subject]:
        """All subjects of a kind that have been seen."""
        return self._relations.subjects(kind)

    def related(self, subject: Subject, kind: SubjectKind) -> Subject | None:
        """The one subject of `kind` that `subject` belongs to or uses, itself included."""
        return self._relations.related(subject, kind)

    def members(self, kind: SubjectKind, root: Subject) -> Sequence[Subject]:
        """The subjects of `kind` on a host or in a job."""
        return self._relations.members(kind, root)
