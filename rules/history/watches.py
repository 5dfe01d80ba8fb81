"""Who looks for events: where a collector sees its source and tells of nothing, nothing has happened."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from aidiag.collectors.observation import Sample
from aidiag.collectors.subject import Subject

SUCCESS = "collector_success"
"""The signal with which the runner tells how a run of a collector ended (collectors/outcome.py)."""

FRESH_SECONDS = 120.0
"""So long a look counts: as long as a reading of that signal."""


class Watches:
    """When collectors last looked for events of each kind, by host. `kinds` are those that each collector looks for."""

    def __init__(self, kinds: Mapping[str, Collection[str]]) -> None:
        self._kinds = kinds
        self._looked: dict[str, dict[Subject, float]] = {}

    def look(self, success: Sample) -> Collection[str]:
        """Take how a run of a collector ended; gives the kinds that it has looked for, none where it could not see."""
        kinds = self._kinds.get(dict(success.labels).get("collector", ""), ()) if success.value else ()
        for kind in kinds:
            self._looked.setdefault(kind, {})[success.subject] = success.time
        return kinds

    def hosts(self, kind: str, now: float) -> Iterator[Subject]:
        """The hosts on which a collector has lately looked for events of a kind."""
        for place, time in self._looked.get(kind, {}).items():
            if now - time <= FRESH_SECONDS:
                yield place

    def forget(self, now: float) -> None:
        """Drop what is too old to count."""
        for kind in self._looked:
            looked = self._looked[kind]
            self._looked[kind] = {place: looked[place] for place in self.hosts(kind, now)}
