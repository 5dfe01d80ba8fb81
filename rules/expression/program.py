"""The expressions of one rule, from checked trees to closures.

Strict operators let Undecided pass; `and`, `or`, `or_else` and the group functions decide where the rest suffices
(Kleene's strong three-valued logic).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from aidiag.collectors.signal import Registry
from aidiag.rules.expression import events_of, groups
from aidiag.rules.expression.calls import LONGEST_WINDOW_SECONDS
from aidiag.rules.expression.evaluation import UNSET, Closure, Frame, Value
from aidiag.rules.expression.tree import (
    Call,
    Choice,
    Compare,
    Const,
    Expression,
    Group,
    Logic,
    Name,
    Node,
    OfEvent,
    OfReading,
    OneOf,
    Read,
    Share,
    Windowed,
    walk,
)
from aidiag.rules.history.counter import Counter
from aidiag.rules.history.series import COVERED, Gauge, Series
from aidiag.rules.undecided import Gap, Undecided, undecided

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


class Program:
    """Compiles the expressions of one rule. `thresholds` are in base units.

    `reads` lists the signals that the expressions read, `let_reads` which of them each let reads.
    """

    def __init__(self, registry: Registry, lets: Mapping[str, Expression], thresholds: Mapping[str, Value]) -> None:
        self.registry = registry
        self.reads: list[Read] = []
        self.let_names = tuple(lets)
        self.let_reads: list[frozenset[int]] = []
        self.let_bodies: list[Closure] = []
        self.blank_lets: list[Any] = [UNSET] * len(lets)
        self._thresholds = thresholds
        self._indices: dict[Read, int] = {}
        for expression in lets.values():
            self.let_bodies.append(self.closure(expression.tree))
            self.let_reads.append(frozenset(self.indices(expression.tree)))

    def let(self, frame: Frame, index: int) -> Any:
        """The value of a let for a frame, found once at a moment."""
        value = frame.lets[index]
        if value is UNSET:
            try:
                value = self.let_bodies[index](frame)
            except Undecided as reason:
                value = reason
            frame.lets[index] = value
        if value.__class__ is Undecided:
            raise value.with_traceback(None)
        return value

    def closure(self, node: Node) -> Closure:
        """The closure of a node."""
        match node:
            case Const(value):
                return lambda frame: value
            case Name():
                return self._name(node)
            case Read():
                return self._read(node)
            case Windowed():
                return self._windowed(node)
            case Share():
                return self._share(node)
            case OfReading():
                return self._of_reading(node)
            case OfEvent():
                window = self.closure(node.window) if node.window is not None else None
                return events_of.closure(node, window)
            case Group():
                where = self.closure(node.where) if node.where is not None else None
                return groups.closure(node, self.closure(node.value), where)
            case Call():
                return self._call(node)
            case Compare():
                return self._compare(node)
            case OneOf(value=inner, options=options):
                tested, accepted = self.closure(inner), frozenset(options)
                return lambda frame: tested(frame) in accepted
            case Logic():
                return _logic(node.operator, tuple(self.closure(part) for part in node.operands))
            case Choice():
                condition, yes, no = self.closure(node.condition), self.closure(node.yes), self.closure(node.no)
                return lambda frame: yes(frame) if condition(frame) else no(frame)

    def index(self, read: Read) -> int:
        """The place of a reading in the program's list."""
        if read not in self._indices:
            self._indices[read] = len(self.reads)
            self.reads.append(read)
        return self._indices[read]

    def _name(self, node: Name) -> Closure:
        if node.kind == "let":
            place, let = self.let_names.index(node.name), self.let
            return lambda frame: let(frame, place)
        if node.kind == "threshold":
            value = self._thresholds[node.name]
            return lambda frame: value
        if node.kind == "each":
            return lambda frame: frame.binding
        return events_of.field_of_frame(node.name)

    def _read(self, node: Read) -> Closure:
        index = self.index(node)
        return lambda frame: frame.read(index).value(frame.evaluation.now)

    def _series_type(self, read: Read) -> type[Series[Any]]:
        return Counter if self.registry.signals[read.signal].type == "counter" else Gauge

    def _windowed(self, node: Windowed) -> Closure:
        index = self.index(node.read)
        function: Callable[[Any, float, float], Any] = getattr(self._series_type(node.read), node.function)
        if isinstance(node.window, Const):
            seconds = float(node.window.value)
            return lambda frame: function(frame.read(index), frame.evaluation.now, seconds)
        window = self.closure(node.window)
        return lambda frame: function(frame.read(index), frame.evaluation.now, _length(window(frame)))

    def _of_reading(self, node: OfReading) -> Closure:
        index, label = self.index(node.read), node.argument
        if node.function == "age":
            return lambda frame: frame.read(index).age(frame.evaluation.now)
        if node.function == "exists":
            return lambda frame: _exists(frame, index)
        if node.function == "why_missing":
            return lambda frame: _why_missing(frame, index)
        return lambda frame: dict(frame.read(index).labels).get(label, "")

    def _share(self, node: Share) -> Closure:
        condition, window = self.closure(node.condition), self.closure(node.window)
        indices = sorted(set(self.indices(node.condition)))

        def share(frame: Frame) -> float:
            now, seconds = frame.evaluation.now, _length(window(frame))
            times: set[float] = {now - seconds}
            for index in indices:
                try:
                    times.update(frame.read(index).changes(now, seconds))
                except Undecided:
                    continue
            past = frame.evaluation.past()
            held = covered = 0.0
            moments = sorted(times)
            for start, end in zip(moments, [*moments[1:], now], strict=True):
                try:
                    truth = condition(past.at(start).frame(frame.subject, frame.binding))
                except Undecided:
                    continue
                covered += end - start
                held += end - start if truth else 0.0
            if covered < seconds * COVERED:
                reason = f"seen for {covered:.0f} s of the last {seconds:.0f} s only"
                raise undecided(f"a condition of {frame.subject}", reason)
            return held / covered

        return share

    def indices(self, tree: Node) -> Iterator[int]:
        """The places in `reads` of every signal that a tree reads, through its lets."""
        for node in walk(tree):
            if isinstance(node, Read):
                yield self.index(node)
            elif isinstance(node, Name) and node.kind == "let":
                yield from self.let_reads[self.let_names.index(node.name)]

    def _call(self, node: Call) -> Closure:
        parts = tuple(self.closure(argument) for argument in node.arguments)
        if len(parts) == 2 and node.function in _BINARY:
            return _BINARY[node.function](*parts)
        if len(parts) == 1:
            function, only = _UNARY[node.function], parts[0]
            return lambda frame: function(only(frame))
        choose = max if node.function == "larger" else min
        return lambda frame: choose(part(frame) for part in parts)

    def _compare(self, node: Compare) -> Closure:
        parts = tuple(self.closure(part) for part in node.operands)
        tests = tuple(_COMPARISONS[symbol] for symbol in node.operators)
        if len(tests) > 1:
            return lambda frame: _chain(frame, parts, tests)
        test, left, right = tests[0], parts[0], parts[1]
        if isinstance(node.operands[1], Const):
            constant = node.operands[1].value
            return lambda frame: test(left(frame), constant)
        return lambda frame: test(left(frame), right(frame))


def _chain(frame: Frame, parts: tuple[Closure, ...], tests: tuple[Callable[[Any, Any], bool], ...]) -> bool:
    """`a < b < c` is `a < b and b < c`: one part that is false decides."""
    gaps: list[Gap] = []
    for test, left, right in zip(tests, parts, parts[1:], strict=False):
        try:
            if not test(left(frame), right(frame)):
                return False
        except Undecided as reason:
            gaps += reason.gaps
    if gaps:
        raise Undecided(*dict.fromkeys(gaps))
    return True


def _logic(name: str, parts: tuple[Closure, ...]) -> Closure:
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
            raise Undecided(*dict.fromkeys(gaps))
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


_BINARY: dict[str, Callable[[Closure, Closure], Closure]] = {
    "+": _arithmetic(operator.add),
    "-": _arithmetic(operator.sub),
    "*": _arithmetic(operator.mul),
    "/": _divide,
    "or_else": _or_else,
    "larger": _joined(max),
    "smaller": _joined(min),
    "contains": _arithmetic(lambda text, part: part in text),
}


def _checked(kinds: tuple[type, ...], words: str) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if not isinstance(value, kinds) or (bool not in kinds and isinstance(value, bool)):
            raise undecided("a field of the event", f"{value!r} is not {words}")
        return value

    return check


_UNARY: dict[str, Callable[[Any], Any]] = {
    "negative": operator.neg,
    "abs": abs,
    "floor": lambda value: float(math.floor(value)) if math.isfinite(value) else value,
    "ceil": lambda value: float(math.ceil(value)) if math.isfinite(value) else value,
    "as_number": _checked((int, float), "a number"),
    "as_text": _checked((str,), "a text"),
    "as_truth": _checked((bool,), "yes or no"),
}


def _length(seconds: Any) -> float:
    """A window that was calculated, within what is remembered."""
    if not seconds > 0:
        raise undecided("a window", f"its length is {seconds:g} s")
    return float(min(seconds, LONGEST_WINDOW_SECONDS))


def _exists(frame: Frame, index: int) -> bool:
    try:
        return frame.read(index).fresh(frame.evaluation.now)
    except Undecided:
        return False


def _why_missing(frame: Frame, index: int) -> str:
    try:
        frame.read(index).value(frame.evaluation.now)
    except Undecided as reason:
        said = frame.missing(index).gaps[0]
        return (reason.gaps[0] if said.reason == "nothing has reported it" else said).reason
    return ""
