"""The closed list of functions. Nothing else can be called."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["window", "reading", "event", "told", "group", "share", "scalar"]


class Function(NamedTuple):
    """A function of the language: what sort it is, how it is written, what it gives."""

    kind: Kind
    form: str
    help: str


FUNCTIONS: dict[str, Function] = {
    # over a window of time: a signal and a duration
    "rate": Function("window", "rate(counter, 20s)", "growth a second; knows resets and full counters"),
    "delta": Function("window", "delta(signal, 20s)", "growth over the window"),
    "avg": Function("window", "avg(gauge, 20s)", "mean over time"),
    "min": Function("window", "min(gauge, 20s)", "smallest value"),
    "max": Function("window", "max(gauge, 20s)", "largest value"),
    "p50": Function("window", "p50(gauge, 20s)", "value that half of the time does not exceed"),
    "p99": Function("window", "p99(gauge, 20s)", "value that 99 % of the time does not exceed"),
    "first": Function("window", "first(signal, 20s)", "value at the start of the window"),
    "last": Function("window", "last(signal, 20s)", "last reading in the window, also where it is stale by now"),
    "changed": Function("window", "changed(signal, 20s)", "whether the value changed"),
    "share": Function("share", "share(condition, 20s)", "part of the time in which a condition held"),
    # of one reading
    "age": Function("reading", "age(signal)", "time since the last reading, or since the last event of a kind"),
    "exists": Function("reading", "exists(signal)", "whether there is a fresh reading, or an event: exists(kind, 60s)"),
    "label": Function("reading", 'label(info, "name")', "a label of an info signal"),
    "why_missing": Function("reading", "why_missing(signal)", "the reason why a signal is absent, as text"),
    # of events
    "count": Function("event", "count(kind, 60s)", "events of a kind in the window"),
    "field": Function("event", 'field(kind, "name")', "a field of the last event of a kind"),
    # of events anywhere in the incident, whoever told them; fields select: anywhere(kind, name="X")
    "anywhere": Function("told", 'anywhere(kind, field="x")', "whether such an event was told by anyone"),
    "times": Function("told", 'times(kind, field="x")', "how many such events were told"),
    "said": Function("told", 'said(kind, "name", field="x")', "what the last such event says"),
    "only": Function("told", 'only(kind, "name", field="x")', "what such events say, where all say the same"),
    "distinct": Function("told", 'distinct(kind, "name", field="x")', "how many different values such events say"),
    "growth": Function(
        "told", 'growth(kind, "name")', "by what factor values of one field `of` kept growing; 1 if they did not"
    ),
    # over the group of the subject
    "p50_of": Function("group", "p50_of(expression)", "lower median over the group"),
    "mad_of": Function("group", "mad_of(expression)", "median distance from the median of the group"),
    "min_of": Function("group", "min_of(expression)", "smallest of the group"),
    "max_of": Function("group", "max_of(expression)", "largest of the group"),
    "avg_of": Function("group", "avg_of(expression)", "mean of the group"),
    "sum_of": Function("group", "sum_of(expression)", "sum over the group"),
    "spread_of": Function("group", "spread_of(expression)", "largest minus smallest of the group"),
    "count_of": Function("group", "count_of(condition)", "members of the group for which a condition holds"),
    "names_of": Function("group", "names_of(condition)", "names of the members for which a condition holds, as text"),
    # of values
    "larger": Function("scalar", "larger(a, b)", "the larger of several values"),
    "smaller": Function("scalar", "smaller(a, b)", "the smaller of several values"),
    "abs": Function("scalar", "abs(a)", "without its sign"),
    "floor": Function("scalar", "floor(a)", "rounded down"),
    "ceil": Function("scalar", "ceil(a)", "rounded up"),
    "or_else": Function("scalar", "or_else(a, b)", "a, or b while a is undecided"),
    "contains": Function("scalar", 'contains(text, "part", …)', "whether a text holds one of some parts"),
    "begins": Function("scalar", 'begins(text, "part", …)', "whether a text begins with one of some parts"),
}
