"""What a rank did alone before the others gave up waiting."""

from __future__ import annotations

from collections.abc import Iterator

from aidiag.collectors.logs.comparing.found import found, listed, rank_of
from aidiag.collectors.observation import Event

NEAR_BYTES = 24 << 10
"""In one log the busy rank speaks at most this far before the first timeout: further back, steps lie between."""

LONG_SECONDS = 120.0
"""Between the two by their own times, where nothing else can be said of their distance."""

_GAVE_UP = frozenset(
    {"collective_timeout", "peer_wait_timeout", "collective_stalled", "store_timeout", "ranks_missing"}
)
_WORDS = ("Socket Timeout", "wait timeout after", "monitoredBarrier", "Timed out waiting", "barrier", "timed out")


class BusyRanks:
    """The last thing that a rank said it does, near before the first timeout of the others."""

    def __init__(self) -> None:
        self._last: dict[str, Event] = {}
        self._ended: dict[str, Event] = {}
        self._first: Event | None = None
        self._reporters: set[int] = set()
        self._missing = ""
        self._busy: list[Event] = []
        self._ends: list[Event] = []

    def add(self, event: Event) -> None:
        """Take note of what a rank does, and of the first who gave up."""
        source = event.place.source if event.place else ""
        if event.kind == "rank_busy":
            if self._first is None:
                self._last[source] = event
        elif event.kind == "epoch_ended":
            if self._first is None:
                self._ended[source] = event
        elif event.kind == "step_timed":
            self._last.pop(source, None)
            self._ended.pop(source, None)
        elif event.kind in _GAVE_UP or (event.kind == "python_exception" and _waited(event)):
            rank = rank_of(event)
            if rank is not None:
                self._reporters.add(rank)
            self._missing = self._missing or str(event.fields.get("ranks", ""))
            if self._first is None:
                self._first = event
                self._busy = [one for one in self._last.values() if _near(one, event)]
                self._ends = [one for one in self._ended.values() if _near(one, event)]

    def finish(self) -> Iterator[Event]:
        """The busy rank, and who came to the end of its data."""
        for one in self._busy:
            rank = rank_of(one)
            named = 0 if rank is None and 0 not in self._reporters else rank
            fields = {name: one.fields[name] for name in ("what", "item") if name in one.fields}
            yield found("busy_before_timeout", one, busy=None if named is None else str(named), **fields)
        if self._ends:
            ended = {rank for one in self._ends if (rank := rank_of(one)) is not None}
            yield found("data_ended_before_timeout", self._ends[-1], ended=self._missing or listed(ended) or None)


def _waited(event: Event) -> bool:
    return any(word in str(event.fields.get("text", "")) for word in _WORDS)


def _near(busy: Event, event: Event) -> bool:
    if busy.place is None or event.place is None or busy.place.source != event.place.source:
        return True
    return event.order - busy.order <= NEAR_BYTES
