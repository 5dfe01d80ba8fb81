"""Functions of what was told anywhere in an incident, whoever told it: `anywhere`, `times`, `said`, `only`, `distinct`,
`growth`.

A host's command output, a launcher's word and an unattributed line of a merged log count as much as the subject's own
events; those of another job do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from aidiag.collectors.observation import Event
from aidiag.rules.expression.evaluation import Closure, Frame
from aidiag.rules.expression.tree import Told
from aidiag.rules.undecided import undecided


def closure(node: Told, like: Mapping[str, Closure]) -> Closure:
    """The closure of a node; `like` calculates the values that fields must have. Where nothing was told and the kind
    cannot be seen, it is undecided.
    """

    def alike(frame: Frame) -> list[Event]:
        found = events(frame, node)
        if not like:
            return found
        wanted = {name: value(frame) for name, value in like.items()}
        return [event for event in found if all(_field(event, name) == value for name, value in wanted.items())]

    def anywhere(frame: Frame) -> bool:
        return bool(alike(frame))

    def times(frame: Frame) -> float:
        return float(len(alike(frame)))

    def said(frame: Frame) -> Any:
        return _values(alike(frame), node)[-1]

    def only(frame: Frame) -> Any:
        values = _values(alike(frame), node)
        if len(set(values)) > 1:
            raise undecided(f"field {node.argument} of {node.kind}", "several events say different things")
        return values[-1]

    def distinct(frame: Frame) -> float:
        return float(len(set(_values(alike(frame), node))))

    def growth(frame: Frame) -> float:
        series: dict[tuple[Any, ...], list[float]] = {}
        for event in alike(frame):
            value = event.fields.get(node.argument)
            if isinstance(value, (int, float)) and value > 0:
                names = (text for text in event.fields.items() if text[0] == "of")
                series.setdefault((event.subject, *names), []).append(value)
        found = [_growth(values) for values in series.values() if len(values) >= GROWTH_VALUES]
        if not found:
            raise undecided(f"growth of {node.kind}", f"fewer than {GROWTH_VALUES} values were told")
        return max(found)

    functions = {
        "anywhere": anywhere,
        "times": times,
        "said": said,
        "distinct": distinct,
        "growth": growth,
        "only": only,
    }
    return functions[node.function]


GROWTH_VALUES = 3
"""So many values show whether a quantity keeps growing."""
DROP_MOST = 0.05
LATE_LEAST = 0.2


def _growth(values: Sequence[float]) -> float:
    """By what factor values grew that never fell much and grew in their second half too; 1 where they did not."""
    falls = any(later < earlier * (1 - DROP_MOST) for earlier, later in pairwise(values))
    rise, late = values[-1] - values[0], values[-1] - values[len(values) // 2]
    return 1.0 if falls or late < LATE_LEAST * rise else max(1.0, values[-1] / values[0])


def events(frame: Frame, node: Told) -> list[Event]:
    """The events that a node asks for, in the order of their time. Raises Undecided where they cannot be seen."""
    history, subject = frame.evaluation.history, frame.subject
    job = subject.job if subject is not None else ""
    key = ("told", node.kind, node.where, job)
    found: list[Event] | None = frame.evaluation.groups.get(key)
    if found is None:
        found = [
            event
            for whose, run in history.events(node.kind).items()
            if not job or whose is None or whose.job in ("", job)
            for event in run
            if all(event.fields.get(name) == value for name, value in node.where)
        ]
        found.sort(key=lambda event: (history.time_of(event) or 0.0, event.order))
        frame.evaluation.groups[key] = found
    if not found and history.absence(node.kind, subject) is not None:
        raise history.missing(node.kind, subject)
    return found


def _values(found: list[Event], node: Told) -> list[Any]:
    values = [value for event in found if (value := _field(event, node.argument)) is not None]
    if not values:
        raise undecided(f"field {node.argument} of {node.kind}", "no event says it")
    return values


def _field(event: Event, name: str) -> Any:
    """What an event says; the rank that it is about where it does not say one itself."""
    value = event.fields.get(name)
    return event.subject.rank if value is None and name == "rank" and event.subject is not None else value
