"""What cannot be read, and why: said by collectors, and forgotten when it is read or when nobody says it any more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from aidiag.collectors.observation import Absent, Labels, Sample
from aidiag.collectors.subject import Subject, host


class Absences:
    """What collectors said about signals and event kinds that they cannot see. It is remembered for a horizon."""

    def __init__(self, horizon_seconds: float) -> None:
        self._horizon = horizon_seconds
        self.said: dict[str, dict[Subject, dict[Labels, Absent]]] = {}
        """By signal or event kind, subject and labels."""

    def add(self, absent: Absent, now: float | None) -> None:
        """Take what is said at `now`, the newest time that is known, where it has no time of its own."""
        if absent.time is None and now is not None:
            absent = replace(absent, time=now)
        self.said.setdefault(absent.signal, {}).setdefault(absent.subject, {})[absent.labels] = absent

    def end(self, sample: Sample) -> None:
        """Forget what was said about this signal of this subject, or of the whole host of it.

        A job has many hosts: what any of them said about a signal of the job is settled by a reading.
        """
        said = self.said[sample.signal]
        subject = sample.subject
        places = [subject, host(subject.host)]
        if subject.kind == "job":
            places += [place for place in said if place.kind == "host"]
        for place in places:
            about = said.get(place)
            if about is None:
                continue
            about.pop(sample.labels, None)
            about.pop((), None)
            if not about:
                del said[place]
        if not said:
            del self.said[sample.signal]

    def forget(self, now: float) -> int:
        """Drop what nobody has said for the horizon, and give how many that were. What has no time is of now."""
        gone = 0
        for signal, said in list(self.said.items()):
            for subject, about in list(said.items()):
                for labels, absent in list(about.items()):
                    if absent.time is None:
                        about[labels] = replace(absent, time=now)
                    elif now - absent.time > self._horizon:
                        del about[labels]
                        gone += 1
                if not about:
                    del said[subject]
            if not said:
                del self.said[signal]
        return gone

    def about(self, signal: str, subject: Subject, labels: Labels) -> Absent | None:
        """What was said about just this subject: with these labels, without labels, else with any."""
        about = self.said.get(signal, {}).get(subject)
        if not about:
            return None
        return about.get(labels) or about.get(()) or next(iter(about.values()))

    def of(self, signal: str) -> Iterator[Absent]:
        """Everything that was said about a signal."""
        for about in self.said.get(signal, {}).values():
            yield from about.values()

    def subjects(self) -> Iterator[Subject]:
        """Everything of which something cannot be seen."""
        for said in self.said.values():
            yield from said
