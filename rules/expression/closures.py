"""The pieces that compiled expressions are put together from: logic, arithmetic, checks of types.

Strict operators let Undecided pass; `and`, `or` and `or_else` decide where the rest suffices (Kleene's strong
three-valued logic).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from typing import Any

from aidiag.rules.expression.calls import LONGEST_WINDOW_SECONDS
from aidiag.rules.expression.evaluation import Closure, Frame
from aidiag.rules.undecided import Gap, Undecided, undecided, without

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


def chain(frame: Frame, parts: tuple[Closure, ...], tests: tuple[Callable[[Any, Any], bool], ...]) -> bool:
    """`a < b < c` is `a < b and b < c`: one part that is false decides."""
    gaps: list[Gap] = []
    for test, left, right in zip(tests, parts, parts[1:], strict=False):
        try:
            if not test(left(frame), right(frame)):
                return False
        except Undecided as reason:
            gaps += reason.gaps
    if gaps:
        raise without(gaps)
    return True


def logic(name: str, parts: tuple[Closure, ...]) -> Closure:
    """`and`, `or`, `not`: undecided only where the parts that are known do not decide."""
    if name == "not":
        only = parts[0]
        return lambda frame: not only(frame)
    decisive = name == "or"

    def logic(frame: Frame) -> bool:
        gaps: tuple[Gap, ...] = ()
        for part in parts:
            try:
                if bool(part(frame)) is decisive:
                    return decisive
            except Undecided as reason:
                gaps += reason.gaps
        if gaps:
            raise without(gaps)
        return not decisive

    return logic


def _divide(left: Closure, right: Closure) -> Closure:
    def divide(frame: Frame) -> float:
        below = right(frame)
        if below == 0:
            raise undecided("a quotient", "division by zero")
        return left(frame) / below  # type: ignore[no-any-return]

    return divide


def _or_else(value: Closure, fallback: Closure) -> Closure:
    def or_else(frame: Frame) -> Any:
        try:
            return value(frame)
        except Undecided:
            return fallback(frame)

    return or_else


def _joined(choose: Callable[[Iterable[Any]], Any]) -> Callable[[Closure, Closure], Closure]:
    return lambda left, right: lambda frame: choose((left(frame), right(frame)))


def _arithmetic(function: Callable[[Any, Any], Any]) -> Callable[[Closure, Closure], Closure]:
    return lambda left, right: lambda frame: function(left(frame), right(frame))


BINARY: dict[str, Callable[[Closure, Closure], Closure]] = {
    "+": _arithmetic(operator.add),
    "-": _arithmetic(operator.sub),
    "*": _arithmetic(operator.mul),
    "/": _divide,
    "or_else": _or_else,
    "larger": _joined(max),
    "smaller": _joined(min),
    "contains": _arithmetic(lambda text, part: part in text),
    "begins": _arithmetic(lambda text, part: text.startswith(part)),
}


def _checked(kinds: tuple[type, ...], words: str) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if not isinstance(value, kinds) or (bool not in kinds and isinstance(value, bool)):
            raise undecided("a field of the event", f"{value!r} is not {words}")
        return value

    return check


UNARY: dict[str, Callable[[Any], Any]] = {
    "negative": operator.neg,
    "abs": abs,
    "floor": lambda value: float(math.floor(value)) if math.isfinite(value) else value,
    "ceil": lambda value: float(math.ceil(value)) if math.isfinite(value) else value,
    "as_number": _checked((int, float), "a number"),
    "as_text": _checked((str,), "a text"),
    "as_truth": _checked((bool,), "yes or no"),
    "told_as_text": lambda value: value if isinstance(value, str) else f"{value:.15g}",
}


def length(seconds: Any) -> float:
    """A window that was calculated, within what is remembered."""
    if not seconds > 0:
        raise undecided("a window", f"its length is {seconds:g} s")
    return float(min(seconds, LONGEST_WINDOW_SECONDS))


def exists(frame: Frame, index: int) -> bool:
    """Whether there is a fresh reading; never undecided."""
    try:
        return frame.read(index).fresh(frame.evaluation.now)
    except Undecided:
        return False


def why_missing(frame: Frame, index: int) -> str:
    """Why there is no fresh reading, empty where there is one; never undecided."""
    try:
        frame.read(index).value(frame.evaluation.now)
    except Undecided as reason:
        said = frame.missing(index).gaps[0]
        return (reason.gaps[0] if said.reason == "nothing has reported it" else said).reason
    return ""
