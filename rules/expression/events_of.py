"""Functions of events: whether, how often and when they happened, and what they said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from aidiag.collectors.observation import Event
from aidiag.rules.expression.evaluation import Closure, Frame, unattributed
from aidiag.rules.expression.tree import OfEvent
from aidiag.rules.history.events import Run
from aidiag.rules.undecided import undecided


def field_of_frame(name: str) -> Closure:
    """A field of the event that the rule is evaluated for; `event` is the name of its kind."""

    def field(frame: Frame) -> Any:
        event = frame.event
        if event is None:
            raise undecided(f"field {name}", "there is no event")
        if name == "event":
            return event.kind
        if name not in event.fields:
            raise undecided(f"field {name} of {event.kind}", "the event does not say it")
        return event.fields[name]

    return field


def closure(node: OfEvent, window: Closure | None) -> Closure:
    """exists, count, age and field of an event kind, for the subject, what it belongs to and what belongs to it."""
    kind = node.kind

    def exists(frame: Frame) -> bool:
        return any(True for _ in _events(frame, kind, window))

    def count(frame: Frame) -> float:
        return float(sum(1 for _ in _events(frame, kind, window)))

    def age(frame: Frame) -> float:
        times = [time for _, time in _events(frame, kind, window) if time is not None]
        if not times:
            raise undecided(f"{kind} of {frame.subject}", "it has not happened at a known time")
        return frame.evaluation.now - max(times)

    def field(frame: Frame) -> Any:
        last: Event | None = None
        for event, _ in _events(frame, kind, window):
            last = event if last is None or (event.time or 0.0, event.order) >= (last.time or 0.0, last.order) else last
        if last is None or node.argument not in last.fields:
            raise undecided(f"field {node.argument} of {kind}", "no event says it")
        return last.fields[node.argument]

    return {"exists": exists, "count": count, "age": age, "field": field}[node.function]


def _events(frame: Frame, kind: str, window: Closure | None) -> Iterator[tuple[Event, float | None]]:
    """The events of a kind that concern the frame's subject. Raises Undecided where only unattributed ones are left."""
    history, now = frame.evaluation.history, frame.evaluation.now
    start = now - window(frame) if window is not None else float("-inf")

    def timely(runs: Iterable[Run]) -> Iterator[tuple[Event, float | None]]:
        for run in runs:
            for event in run:
                time = history.time_of(event)
                if time is None or start <= time <= now:
                    yield event, time

    every = history.events(kind)
    if not every:
        return
    if frame.subject is None:
        nameless: Iterable[Run] = every.values()
    else:
        found = False
        for found_one in timely(history.events_of(kind, frame.subject)):
            found = True
            yield found_one
        if found:
            return
        nameless = [every[None]] if None in every else ()
    if any(True for _ in timely(nameless)):
        raise unattributed(kind)
