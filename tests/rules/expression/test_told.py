"""What was told anywhere in an incident, whoever told it."""

from __future__ import annotations

from typing import Any

import pytest

from aidiag.collectors.observation import Absent, Event
from aidiag.collectors.signal import EventKind, Registry
from aidiag.collectors.subject import Subject, host, rank
from aidiag.rules.expression.errors import ExpressionError
from aidiag.rules.expression.evaluation import Evaluation
from aidiag.rules.expression.parsing import Names, parse
from aidiag.rules.expression.program import Program
from aidiag.rules.places import ranges, ranks_in
from aidiag.rules.undecided import Undecided
from aidiag.rules.window import Window

REGISTRY = Registry.of(
    [],
    [EventKind("variable", "rank", "", ("name", "value")), EventKind("answer", "host", "", ("peer", "seconds"))],
)
R0, OTHERS = rank(0, host="a", job="j"), rank(0, host="c", job="other")


def worth(window: Window, text: str, subject: Subject | None = R0) -> Any:
    """What an expression is worth for a subject."""
    program = Program(REGISTRY, {}, {})
    closure = program.closure(parse(text, Names(REGISTRY, "rank")).tree)
    return closure(Evaluation(program, window).at(60.0).frame(subject))


@pytest.fixture
def window() -> Window:
    """Variables that two ranks, nobody, and another job have set, and an answer from a host."""
    found = Window(REGISTRY, event_horizon_seconds=None, unix_offset=0.0)
    told: list[tuple[Subject | None, str, str]] = [
        (R0, "A", "1"),
        (rank(1, host="b", job="j"), "A", "2"),
        (None, "B", "3"),
        (OTHERS, "A", "9"),
    ]
    for number, (subject, name, value) in enumerate(told):
        found.add(Event("variable", subject, 1.0 + number, {"name": name, "value": value}))
    found.add(Event("answer", host("b"), None, {"peer": "x", "seconds": 2.5}))
    return found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("anywhere(variable)", True),
        ('anywhere(variable, name="B")', True),
        ('anywhere(variable, name="A", value="9")', False),
        ('times(variable, name="A")', 2.0),
        ('said(variable, "value", name="A")', "2"),
        ('distinct(variable, "value")', 3.0),
        ('said(variable, "value", name=said(variable, "name", value="3"))', "3"),
        ('times(variable, name=said(variable, "name", value="2"))', 2.0),
        ('only(variable, "value", name="B")', "3"),
        ('only(variable, "rank", value="2")', 1),
        ("anywhere(answer, seconds=2.5)", True),
        ('said(answer, "seconds") > 2', True),
        ('contains(said(variable, "value", name="B"), "4", "3")', True),
        ('contains(said(variable, "value", name="B"), "4", "5", "6")', False),
    ],
)
def test_everyone_of_the_job_counts_and_nobody_of_another(window: Window, text: str, value: object) -> None:
    """Own events, those of other ranks and hosts, and unattributed ones; never those of another job."""
    assert worth(window, text) == value


@pytest.mark.parametrize(
    ("values", "factor"),
    [
        ([1, 2, 3, 4], 4.0),
        ([1, 2, 1.99, 4], 4.0),
        ([1, 2, 1, 4], 1.0),
        ([1, 4, 4, 4, 4.1], 1.0),
        ([4, 3, 2], 1.0),
    ],
)
def test_growth_is_what_never_falls_and_goes_on(values: list[float], factor: float) -> None:
    """A rise that ends early, or one that falls back, is none."""
    found = Window(REGISTRY, event_horizon_seconds=None, unix_offset=0.0)
    for number, value in enumerate(values):
        found.add(Event("answer", host("b"), 1.0 + number, {"seconds": value}))
    assert worth(found, 'growth(answer, "seconds")') == factor


def test_growth_of_few_values_is_undecided(window: Window) -> None:
    """One value tells nothing."""
    with pytest.raises(Undecided, match="fewer than 3"):
        worth(window, 'growth(answer, "seconds")')


def test_what_nobody_says_is_undecided(window: Window) -> None:
    """A value that was not told has none, and a kind that cannot be seen is neither there nor not."""
    with pytest.raises(Undecided, match="no event says it"):
        worth(window, 'said(variable, "value", name="C")')
    with pytest.raises(Undecided, match="different things"):
        worth(window, 'only(variable, "value", name="A")')
    with pytest.raises(Undecided, match="no event says it"):
        worth(window, 'times(variable, name=said(variable, "value", name="C"))')
    assert worth(window, 'anywhere(variable, name="C")') is False
    empty = Window(REGISTRY)
    assert worth(empty, "anywhere(answer)") is False
    empty.add(Absent("answer", host("a"), "the log is another user's"))
    with pytest.raises(Undecided, match="another user's"):
        worth(empty, "anywhere(answer)", rank(0, host="a", job="j"))


def test_what_is_told_later_is_seen(window: Window) -> None:
    """What was found is kept only as long as nothing new is told."""
    assert worth(window, 'times(variable, name="B")') == 1
    window.add(Event("variable", None, 9.0, {"name": "B", "value": "4"}))
    assert worth(window, 'times(variable, name="B")') == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("anywhere(variabel)", "takes an event kind"),
        ('said(variable, "valu")', "no field valu"),
        ('anywhere(variable, nam="x")', "no field nam"),
        ("said(variable)", "called wrongly"),
    ],
)
def test_a_mistake_is_refused(text: str, message: str) -> None:
    """Unknown kinds and fields, and a missing value."""
    with pytest.raises(ExpressionError, match=message):
        parse(text, Names(REGISTRY, "rank"))


@pytest.mark.parametrize(
    ("value", "ranks"),
    [
        (3, (3,)),
        (3.0, (3,)),
        ("3", (3,)),
        ("0-2, 5", (0, 1, 2, 5)),
        ("1 4", (1, 4)),
        ("node 3", ()),
        ("", ()),
        (None, ()),
    ],
)
def test_ranks_in_words(value: object, ranks: tuple[int, ...]) -> None:
    """Numbers and runs are read; anything else names nobody."""
    assert ranks_in(value) == ranks


def test_ranks_are_read_as_they_are_written() -> None:
    """Reading is the inverse of writing."""
    assert ranks_in(ranges([0, 1, 2, 7, 9])) == (0, 1, 2, 7, 9)
