"""Laws that hold whatever is written: safety of the parser, Kleene's logic."""

from __future__ import annotations

import ast
import string
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from aidiag.collectors.signal import EventKind, Registry, Signal
from aidiag.collectors.subject import rank
from aidiag.rules.expression.errors import ExpressionError
from aidiag.rules.expression.evaluation import Evaluation
from aidiag.rules.expression.functions import FUNCTIONS
from aidiag.rules.expression.parsing import Names, parse
from aidiag.rules.expression.program import Program
from aidiag.rules.expression.tree import Node, walk
from aidiag.rules.undecided import Undecided
from aidiag.rules.window import Window

REGISTRY = Registry.of(
    [
        Signal("queue", "gauge", "count", "rank", ""),
        Signal("work_total", "counter", "count", "rank", ""),
        Signal("delay_seconds", "gauge", "seconds", "rank", ""),
        Signal("state", "text", "", "rank", ""),
    ],
    [EventKind("crash", "rank", "", ("code",))],
)
NAMES = Names(REGISTRY, "rank", fields=frozenset({"code"}))
WORDS = [
    *FUNCTIONS, *REGISTRY.signals, "crash", "code", "and", "or", "not", "in", "if", "else", "true", "within", "where",
    "host", "job", "(", ")", "[", "]", ",", "+", "-", "*", "/", "<", ">", "==", "!=", "<=", "=", "1", "0", "20s", "50%",
    "4GiB", '"on"', '""', "lambda", "for", "import", "__class__", "None", "is", "yield", "await", ":", ".", "{", "}",
    "**", "\\", "\n", "#", "@", "é", "\x00", "1e400", "0x1", "1_0", "rate(work_total, 20s)", "p50_of(queue)",
]  # fmt: skip


def evaluated(tree: Node) -> Any:
    """An expression's value for a rank that has no readings at all."""
    program = Program(REGISTRY, {}, {})
    window = Window(REGISTRY)
    return program.closure(tree)(Evaluation(program, window).at(0.0).frame(rank(0, host="a", job="j")))


@settings(max_examples=400, deadline=None)
@given(st.text(max_size=200) | st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join))
def test_any_text_is_either_refused_or_decidable(text: str) -> None:
    """Arbitrary text is refused with a place inside it, or is an expression with a value or undecided; never a crash."""
    try:
        found = parse(text, NAMES)
    except ExpressionError as error:
        assert 0 <= error.offset <= len(text)
        return
    try:
        assert isinstance(evaluated(found.tree), bool | float | int | str)
    except Undecided as reason:
        assert reason.gaps


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=12).map("".join) | st.text(string.printable, max_size=60))
def test_only_what_is_listed_is_ever_called(text: str) -> None:
    """A tree that was accepted holds no call, name or operator outside the language's own lists."""
    try:
        found = parse(text, NAMES)
    except ExpressionError:
        return
    allowed = {*FUNCTIONS, "+", "-", "*", "/", "negative", "as_number", "as_text", "as_truth"}
    for node in walk(found.tree):
        assert getattr(node, "function", "rate") in allowed
        assert getattr(node, "signal", "queue") in REGISTRY.signals


@given(st.text("()[]-not queue", max_size=2100))
@settings(max_examples=50, deadline=None)
def test_deep_nesting_is_refused_before_python_parses_it(text: str) -> None:
    """No text reaches the limits of Python's own parser."""
    try:
        parse(text, NAMES)
    except ExpressionError as refused:
        assert refused.message
    else:
        ast.parse(text.strip(), mode="eval")


TRUTHS = st.sampled_from(["true", "false", "queue > 1"])  # the last one is undecided: there are no readings


def formula() -> st.SearchStrategy[str]:
    """Conditions over the three truth values."""
    return st.recursive(
        TRUTHS,
        lambda part: st.one_of(
            st.builds("({} and {})".format, part, part),
            st.builds("({} or {})".format, part, part),
            st.builds("(not {})".format, part),
        ),
        max_leaves=6,
    )


def truth(text: str) -> bool | None:
    """True, false, or None for undecided."""
    try:
        return bool(evaluated(parse(text, NAMES).tree))
    except Undecided:
        return None


@settings(max_examples=150, deadline=None)
@given(formula(), formula(), formula())
def test_kleenes_laws(a: str, b: str, c: str) -> None:
    """Conditions obey the laws of Kleene's strong logic."""
    assert truth(f"not (not {a})") == truth(a)
    assert truth(f"not ({a} and {b})") == truth(f"(not {a}) or (not {b})")
    assert truth(f"{a} and {b}") == truth(f"{b} and {a}")
    assert truth(f"{a} or ({b} or {c})") == truth(f"({a} or {b}) or {c}")
    assert truth(f"{a} and ({b} or {c})") == truth(f"({a} and {b}) or ({a} and {c})")
    assert truth(f"{a} and {a}") == truth(a)
    assert truth(f"{a} or ({a} and {b})") == truth(a)


@settings(max_examples=100, deadline=None)
@given(formula())
def test_what_is_decided_stays_so_when_more_is_known(text: str) -> None:
    """Replacing the undecided part by true or by false never turns a decided answer round."""
    decided = truth(text)
    if decided is not None:
        assert decided == truth(text.replace("queue > 1", "true"))
        assert decided == truth(text.replace("queue > 1", "false"))
