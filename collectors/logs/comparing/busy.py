"""What a rank did alone before the others gave up waiting, and who had come to the end of its data by then."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from aidiag.collectors.logs.comparing.found import RANKS_KEPT, found, listed, rank_of
from aidiag.collectors.observation import Event

LinesBetween: TypeAlias = Callable[[str, int, int], Sequence[str]]
"""The lines of a log between two line numbers, neither of them included; none where they cannot be read again."""

NEAR_LINES = 400
NEAR_BYTES = 48 << 10
"""In one log the busy rank speaks at most this far before the first timeout."""

EARLY_SECONDS = 300.0
"""By the clock: at most this long before the others began to wait."""

LOOKED_AT = 32
"""So many of the last things said are followed up in the log."""

TOGETHER = 3
"""From so many ranks on that say the same, it is not one rank alone."""

_GAVE_UP = frozenset(
    {"collective_timeout", "peer_wait_timeout", "collective_stalled", "store_timeout", "collective_desync"}
)
_WORDS = ("Socket Timeout", "wait timeout after", "monitoredBarrier", "Timed out waiting", "barrier", "timed out")
_STEP = re.compile(r"(?<![\w.])(?:train_|lm )?(?:loss|lr|learning_rate|grad_norm|gnorm)\W{1,6}\d", re.IGNORECASE)
"""What a line of a training step says, and one of any other work seldom."""

_LABEL = re.compile(r"\s{0,6}\d{1,7}: |\[rank\d{1,7}\]:|\[[\w,]{0,32}\d{1,7}\]<\w{1,8}>:")
"""Who printed a line, where each line says it. Only steps of the same one say that it went on."""

_STEPS = frozenset({"step_timed", "steps_interval"})


class BusyRanks:
    """The last thing that a rank said it does, near before the first timeout of the others, and no step in between."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int | None], Event] = {}
        self._ended: dict[tuple[str, int | None], Event] = {}
        self._first: dict[str, Event] = {}
        self._stalled: dict[str, Event] = {}
        self._gave_up = False
        self._reporters: set[int] = set()
        self._gave_up_ranks: set[int] = set()
        self._missing = ""

    def add(self, event: Event) -> None:
        """Take note of what a rank does, and of the first who gave up."""
        source = event.place.source if event.place else ""
        if event.kind in ("rank_busy", "epoch_ended"):
            if source not in self._first and len(self._last) < RANKS_KEPT:
                (self._last if event.kind == "rank_busy" else self._ended)[source, rank_of(event)] = event
        elif event.kind in _STEPS:
            if source not in self._first:
                rank = rank_of(event)
                for said in (self._last, self._ended):
                    said.pop((source, rank), None)
        elif event.kind in _GAVE_UP or _waited(event):
            rank = rank_of(event)
            if rank is not None:
                self._reporters.add(rank)
            self._missing = self._missing or str(event.fields.get("ranks", ""))
            self._first.setdefault(source, event)
            if event.kind == "collective_stalled" or str(event.fields.get("message", "")).startswith("horovod-missing"):
                self._stalled[source] = event
            else:
                self._gave_up = True
                if rank is not None and event.kind == "collective_timeout":
                    self._gave_up_ranks.add(rank)

    def finish(self, between: LinesBetween) -> Iterator[Event]:
        """The busy rank, and who came to the end of its data."""
        if not self._first:
            return
        busy = [one for one in _latest(self._last) if self._near(one, between)]
        alike: dict[object, int] = {}
        for one in busy:
            alike[one.fields.get("what")] = alike.get(one.fields.get("what"), 0) + 1
        for one in busy:
            rank = rank_of(one)
            # Who gave up waiting like the others was busy with nothing else by then; Horovod's first rank speaks for all.
            if alike[one.fields.get("what")] < TOGETHER and (rank is None or rank not in self._gave_up_ranks):
                named = rank if rank is not None else self._alone()
                fields = {name: one.fields[name] for name in ("what", "item") if name in one.fields}
                went_on = "yes" if self._went_on(one, between) else None
                yield found(
                    "busy_before_timeout", one, busy=None if named is None else str(named), went_on=went_on, **fields
                )
        # Steps of others after its end are what a rank without data leaves behind; after that of rank 0 the next epoch began.
        ends = [
            one
            for one in _latest(self._ended)
            if self._near(one, between if not rank_of(one) else _nothing) and not _went_on_alone(one, busy)
        ]
        if ends:
            ended = {rank for one in ends if (rank := rank_of(one)) is not None}
            end, silent = ends[-1].fields.get("end"), not (ended or {0}) & self._reporters
            if not ended and end and silent:
                ended = {0}
            yield found(
                "data_ended_before_timeout",
                ends[-1],
                ended=self._missing or listed(ended) or None,
                end=end,
                silent="yes" if silent else None,
            )

    def _alone(self) -> int | None:
        """Who works alone where the line does not say it: the one that all others miss, else rank 0 unless it waits too."""
        if self._missing.isdigit():
            return int(self._missing)
        return 0 if 0 not in self._reporters else None

    def _went_on(self, busy: Event, between: LinesBetween) -> bool:
        """Whether the others only warned that they wait, and steps came after their last warning."""
        stalled = self._stalled.get(busy.place.source if busy.place else "")
        if self._gave_up or stalled is None or stalled.place is None or stalled.place.line is None:
            return False
        first = stalled.place.line
        return any(_STEP.search(line) for line in between(stalled.place.source, first, first + NEAR_LINES))

    def _near(self, said: Event, between: LinesBetween) -> bool:
        """Whether what was said is the last that its rank did before the others gave up."""
        source = said.place.source if said.place else ""
        waiting = self._first.get(source) or next(iter(self._first.values()))
        begun = _waiting_since(waiting)
        if said.unix is not None and begun is not None and said.unix < begun - EARLY_SECONDS:
            return False
        if said.place is None or waiting.place is None or waiting.place.source != source:
            return True
        if waiting.order - said.order > NEAR_BYTES:
            return False
        first, last = said.place.line, waiting.place.line
        if first is None or last is None:
            return True
        own = _LABEL.match(said.place.text)
        return last - first <= NEAR_LINES and not any(
            _STEP.search(line) and not _of_another(line, own) for line in between(source, first, last)
        )


def _of_another(line: str, own: re.Match[str] | None) -> bool:
    other = _LABEL.match(line)
    return own is not None and other is not None and own[0] != other[0]


def _went_on_alone(ended: Event, busy: Sequence[Event]) -> bool:
    """Whether the first rank, once its epoch was over, began an evaluation: that keeps it, and not the lack of data."""
    return not rank_of(ended) and any(
        one.fields.get("what") == "evaluate" and rank_of(one) == rank_of(ended) and one.order >= ended.order
        for one in busy
    )


def _nothing(source: str, first: int, last: int) -> Sequence[str]:
    return ()


def _latest(said: Mapping[tuple[str, int | None], Event]) -> list[Event]:
    return sorted(said.values(), key=lambda one: one.order)[-LOOKED_AT:]


def _waited(event: Event) -> bool:
    if event.kind == "peer_connection_closed":  # what the ranks of Horovod say when one of them has finished
        return event.fields.get("layer") == "horovod"
    return event.kind == "python_exception" and any(word in str(event.fields.get("text", "")) for word in _WORDS)


def _waiting_since(event: Event) -> float | None:
    waited = event.fields.get("elapsed_ms", event.fields.get("timeout_ms"))
    if event.unix is None or not isinstance(waited, int | float):
        return None
    return event.unix - waited / 1000
