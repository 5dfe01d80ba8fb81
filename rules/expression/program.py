"""The expressions of one rule, from checked trees to closures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from aidiag.collectors.signal import Registry
from aidiag.rules.expression import events_of, groups, told
from aidiag.rules.expression.closures import (
    BINARY,
    COMPARISONS,
    UNARY,
    chain,
    exists,
    length,
    logic,
    why_missing,
)
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
    Told,
    Windowed,
    walk,
)
from aidiag.rules.history.counter import Counter
from aidiag.rules.history.series import COVERED, Gauge, Series
from aidiag.rules.undecided import Undecided, undecided


class Program:
    """Compiles the expressions of one rule. `thresholds` are in base units.

    `told` lists what the expressions ask of the whole incident, `reads` the signals that they read, `let_reads` which of them each let reads.
    """

    def __init__(self, registry: Registry, lets: Mapping[str, Expression], thresholds: Mapping[str, Value]) -> None:
        self.registry = registry
        self.reads: list[Read] = []
        self.told: list[Told] = []
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
            case Told():
                self.told.append(node)
                return told.closure(node, {field: self.closure(value) for field, value in node.like})
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
                return logic(node.operator, tuple(self.closure(part) for part in node.operands))
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
        return lambda frame: function(frame.read(index), frame.evaluation.now, length(window(frame)))

    def _of_reading(self, node: OfReading) -> Closure:
        index, label = self.index(node.read), node.argument
        if node.function == "age":
            return lambda frame: frame.read(index).age(frame.evaluation.now)
        if node.function == "exists":
            return lambda frame: exists(frame, index)
        if node.function == "why_missing":
            return lambda frame: why_missing(frame, index)
        return lambda frame: dict(frame.read(index).labels).get(label, "")

    def _share(self, node: Share) -> Closure:
        condition, window = self.closure(node.condition), self.closure(node.window)
        indices = sorted(set(self.indices(node.condition)))

        def share(frame: Frame) -> float:
            now, seconds = frame.evaluation.now, length(window(frame))
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
        if len(parts) == 2 and node.function in BINARY:
            return BINARY[node.function](*parts)
        if len(parts) == 1:
            function, only = UNARY[node.function], parts[0]
            return lambda frame: function(only(frame))
        if node.function in ("contains", "begins"):
            return _any_part(BINARY[node.function], parts[0], parts[1:])
        choose = max if node.function == "larger" else min
        return lambda frame: choose(part(frame) for part in parts)

    def _compare(self, node: Compare) -> Closure:
        parts = tuple(self.closure(part) for part in node.operands)
        tests = tuple(COMPARISONS[symbol] for symbol in node.operators)
        if len(tests) > 1:
            return lambda frame: chain(frame, parts, tests)
        test, left, right = tests[0], parts[0], parts[1]
        if isinstance(node.operands[1], Const):
            constant = node.operands[1].value
            return lambda frame: test(left(frame), constant)
        return lambda frame: test(left(frame), right(frame))


def _any_part(test: Callable[[Closure, Closure], Closure], text: Closure, parts: tuple[Closure, ...]) -> Closure:
    tests = tuple(test(text, part) for part in parts)
    return lambda frame: any(holds(frame) for holds in tests)
