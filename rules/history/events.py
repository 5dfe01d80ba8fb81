"""Events of one kind, bounded: of each subject the first ones, which show how a fault began, and the last ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from aidiag.collectors.observation import Event
from aidiag.collectors.subject import Subject
from aidiag.rules.expression.scopes import ABOVE
from aidiag.rules.history.relations import Relations

FIRST_KEPT = 16
LAST_KEPT = 48
SUBJECTS_KEPT = 20_000
EVENTS_KEPT = 200_000
"""Of one kind, over all subjects. A job of 10,000 ranks that all fail tells some ten lines of each."""


class Run:
    """The events of one kind and one subject, in the order in which they came. `seen` counts all of them."""

    __slots__ = ("first", "heard", "last", "seen")

    def __init__(self) -> None:
        self.first: list[Event] = []
        self.last: deque[Event] = deque(maxlen=LAST_KEPT)
        self.seen = 0
        self.heard: float | None = None
        """The newest time that was known when the last one came: when those happened that have no time."""

    def add(self, event: Event, now: float | None = None) -> int:
        """Take an event that came at `now`; gives by how many more are kept."""
        self.seen += 1
        self.heard = now if now is not None else self.heard
        before = len(self)
        if len(self.first) < FIRST_KEPT:
            self.first.append(event)
        else:
            self.last.append(event)
        return len(self) - before

    def __len__(self) -> int:
        return len(self.first) + len(self.last)

    def __iter__(self) -> Iterator[Event]:
        yield from self.first
        yield from self.last

    def forget_before(self, time: float, time_of: Callable[[Event], float | None]) -> int:
        """Drop what is older, and give how many that were."""
        before = len(self)

        def recent(event: Event) -> bool:
            happened = time_of(event)
            happened = self.heard if happened is None else happened
            return happened is None or happened >= time

        self.first = [event for event in self.first if recent(event)]
        self.last = deque((event for event in self.last if recent(event)), maxlen=LAST_KEPT)
        return before - len(self)


class EventLog:
    """The events of one kind by subject. The subject None stands for events that nobody could attribute."""

    __slots__ = ("_by_host", "_by_job", "kept", "runs")

    def __init__(self) -> None:
        self.runs: dict[Subject | None, Run] = {}
        self.kept = 0
        self._by_host: dict[str, dict[Subject, Run]] = {}
        self._by_job: dict[str, dict[Subject, Run]] = {}

    def add(self, event: Event, subject: Subject | None, now: float | None = None) -> bool:
        """Take an event of `subject` that came at `now`; False where there are too many to remember it."""
        run = self.runs.get(subject)
        if run is None:
            if len(self.runs) >= SUBJECTS_KEPT or self.kept >= EVENTS_KEPT:
                return False
            run = self.runs[subject] = Run()
            if subject is not None:
                self._by_host.setdefault(subject.host, {})[subject] = run
                self._by_job.setdefault(subject.job, {})[subject] = run
        elif self.kept >= EVENTS_KEPT and len(run.last) < LAST_KEPT:
            return False
        self.kept += run.add(event, now)
        return True

    def concerning(self, subject: Subject, relations: Relations) -> Iterator[Run]:
        """The events that happened to a subject, to what it belongs to or uses, or to what it holds.

        They are found by name, so that asking for each of very many subjects does not go through all events each time.
        """
        related = relations.related
        own = dict.fromkeys([*(related(subject, kind) for kind in ABOVE[subject.kind]), subject])
        yield from (self.runs[one] for one in own if one is not None and one in self.runs)
        if subject.kind == "host":
            below = [self._by_host.get(subject.host, {})]
        elif subject.kind == "job":
            of_hosts = (self._by_host.get(name, {}) for name in relations.hosts(subject))
            below = [self._by_job.get(subject.job, {}), *of_hosts]
        else:
            return
        held = {one: run for runs in below for one, run in runs.items() if one not in own}
        yield from (run for one, run in held.items() if related(one, subject.kind) == subject)

    def rename(self, old: Subject, new: Subject) -> None:
        """Join the events of a subject to those of another one that it has turned out to be."""
        run = self._remove(old)
        if run is not None:
            for event in run:
                self.add(event, new, run.heard)

    def forget_before(self, time: float, time_of: Callable[[Event], float | None]) -> int:
        """Drop what is older, and give how many that were."""
        gone = 0
        for subject, run in list(self.runs.items()):
            dropped = run.forget_before(time, time_of)
            gone += dropped
            self.kept -= dropped
            if not len(run):
                self._remove(subject)
        return gone

    def _remove(self, subject: Subject | None) -> Run | None:
        run = self.runs.pop(subject, None)
        if run is None:
            return None
        self.kept -= len(run)
        if subject is None:
            return run
        for index, key in ((self._by_host, subject.host), (self._by_job, subject.job)):
            del index[key][subject]
            if not index[key]:
                del index[key]
        return run
