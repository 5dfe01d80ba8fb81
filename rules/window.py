"""What the rules look at: the last minutes of every signal, what is absent and why, and what happened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from aidiag.collectors.observation import Absent, Event, Labels, Observation, Sample
from aidiag.collectors.signal import Registry
from aidiag.collectors.subject import Subject, SubjectKind, host
from aidiag.rules.history.counter import Counter
from aidiag.rules.history.events import EventLog, Run
from aidiag.rules.history.relations import Relations
from aidiag.rules.history.series import Gauge, Series
from aidiag.rules.undecided import Undecided, undecided

HORIZON_SECONDS = 900.0
EVENT_HORIZON_SECONDS = 3_600.0
LARGEST_SERIES = 20_000
_SWEEP_EVERY = 4_096


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
        self.kept: dict[str, Any] = {}
        """What the engine keeps for this window from one judgement to the next: compiled rules by their id."""
        self._horizon, self._event_horizon = horizon_seconds, event_horizon_seconds
        self._series: dict[tuple[str, Subject, Labels], Series[Any]] = {}
        self._by_subject: dict[tuple[str, Subject], list[Series[Any]]] = {}
        self._absent: dict[str, dict[tuple[Subject, Labels], Absent]] = {}
        self._events: dict[str, EventLog] = {}
        self._relations = Relations()

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
            if observation.signal in self._absent:
                self._no_longer_absent(observation)
            series.add(observation.time, observation.value)
            if self.version % _SWEEP_EVERY == 0:
                self.forget(observation.time)
        elif isinstance(observation, Event):
            self._add_event(observation)
        else:
            self._add_absent(observation)

    def add_all(self, observations: Iterable[Observation]) -> None:
        """Take observations in the order of their time."""
        for observation in observations:
            self.add(observation)

    def _new_series(self, sample: Sample) -> Series[Any] | None:
        signal = self.registry.signals.get(sample.signal)
        if signal is None or len(self._series) >= LARGEST_SERIES:
            self.dropped[sample.signal] = self.dropped.get(sample.signal, 0) + 1
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
            self.dropped[event.kind] = self.dropped.get(event.kind, 0) + 1
            return
        subject = event.subject and self._relations.resolved(event.subject)
        if subject is not None:
            self._see(subject)
        self._events.setdefault(event.kind, EventLog()).add(event, subject)

    def _add_absent(self, absent: Absent) -> None:
        if absent.signal not in self.registry.signals and absent.signal not in self.registry.events:
            self.dropped[absent.signal] = self.dropped.get(absent.signal, 0) + 1
            return
        self._absent.setdefault(absent.signal, {})[absent.subject, absent.labels] = absent
        self._see(absent.subject)

    def _no_longer_absent(self, sample: Sample) -> None:
        """Forget what was said about this signal of this subject, or of its whole host."""
        absent = self._absent[sample.signal]
        for place in (sample.subject, host(sample.subject.host)):
            absent.pop((place, sample.labels), None)
            absent.pop((place, ()), None)
        if not absent:
            del self._absent[sample.signal]

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
        """Drop the series and subjects that nothing has been heard of for the horizon, and old events."""
        for key, series in list(self._series.items()):
            if series.times and now - series.times[-1] > self._horizon + series.max_age:
                del self._series[key]
                same = self._by_subject[key[:2]]
                same.remove(series)
                if not same:
                    del self._by_subject[key[:2]]
        if self._event_horizon is not None:
            for log in self._events.values():
                log.forget_before(now - self._event_horizon)
        living: dict[Subject, None] = dict.fromkeys(subject for _, subject in self._by_subject)
        living.update(dict.fromkeys(subject for absent in self._absent.values() for subject, _ in absent))
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
        absent = self._absent.get(signal)
        if not absent:
            return None
        if subject is None:
            return next(iter(absent.values()))
        for place in (subject, self.related(subject, "host"), self.related(subject, "job")):
            if place is None:
                continue
            found = absent.get((place, labels)) or absent.get((place, ()))
            found = found or next((one for (subject, _), one in absent.items() if subject == place), None)
            if found:
                return found
        return None if subject.host else next(iter(absent.values()))

    def absences(self, signal: str) -> Iterator[Absent]:
        """Everything that collectors said about the absence of a signal."""
        return iter(self._absent.get(signal, {}).values())

    def events(self, kind: str) -> dict[Subject | None, Run]:
        """The events of a kind by subject."""
        log = self._events.get(kind)
        return log.runs if log else {}

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
