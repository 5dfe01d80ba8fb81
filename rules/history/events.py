"""Events of one kind, bounded: of each subject the first ones, which show how a fault began, and the last ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from aidiag.collectors.observation import Event
from aidiag.collectors.subject import Subject

FIRST_KEPT = 16
LAST_KEPT = 48
SUBJECTS_KEPT = 2_048


class Run:
    """The events of one kind and one subject, in the order in which they came. `seen` counts all of them."""

    __slots__ = ("first", "last", "seen")

    def __init__(self) -> None:
        self.first: list[Event] = []
        self.last: deque[Event] = deque(maxlen=LAST_KEPT)
        self.seen = 0

    def add(self, event: Event) -> None:
        """Take an event."""
        self.seen += 1
        if len(self.first) < FIRST_KEPT:
            self.first.append(event)
        else:
            self.last.append(event)

    def __iter__(self) -> Iterator[Event]:
        yield from self.first
        yield from self.last

    def forget_before(self, time: float) -> None:
        """Drop what is known to be older."""
        self.first = [event for event in self.first if event.time is None or event.time >= time]
        while self.last and self.last[0].time is not None and self.last[0].time < time:
            self.last.popleft()


class EventLog:
    """The events of one kind by subject. The subject None stands for events that nobody could attribute."""

    __slots__ = ("runs",)

    def __init__(self) -> None:
        self.runs: dict[Subject | None, Run] = {}

    def add(self, event: Event, subject: Subject | None) -> None:
        """Take an event of `subject`."""
        run = self.runs.get(subject)
        if run is None:
            if len(self.runs) >= SUBJECTS_KEPT:
                return
            run = self.runs[subject] = Run()
        run.add(event)

    def rename(self, old: Subject, new: Subject) -> None:
        """Join the events of a subject to those of another one that it has turned out to be."""
        run = self.runs.pop(old, None)
        if run is not None:
            for event in run:
                self.add(event, new)

    def forget_before(self, time: float) -> None:
        """Drop what is known to be older."""
        for subject, run in list(self.runs.items()):
            run.forget_before(time)
            if not run.first and not run.last:
                del self.runs[subject]
