"""From the text of an expression to a checked tree: whitelisted syntax, known names, units that fit."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from aidiag.collectors.signal import Registry
from aidiag.collectors.subject import SubjectKind
from aidiag.rules.expression import operators
from aidiag.rules.expression.calls import BUILDERS
from aidiag.rules.expression.errors import ExpressionError, did_you_mean
from aidiag.rules.expression.functions import FUNCTIONS
from aidiag.rules.expression.lexing import MAX_DEPTH, Scanned, scan
from aidiag.rules.expression.scopes import unreachable
from aidiag.rules.expression.tree import ANY, TEXT, TRUTH, Choice, Const, Expression, Logic, Name, Read, Type
from aidiag.rules.expression.typed import Typed, as_truth, same_type
from aidiag.rules.expression.units import OF_SIGNAL

MAX_NODES = 200
_CONSTANTS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Names:
    """What the names in an expression can mean.

    `scope` is the kind of subject that the rule is evaluated for, `each` the label that it is evaluated apart for,
    `fields` are those of the rule's events.
    """

    registry: Registry
    scope: SubjectKind
    each: str | None = None
    lets: Mapping[str, Expression] = field(default_factory=dict)
    thresholds: Mapping[str, Type] = field(default_factory=dict)
    fields: frozenset[str] = frozenset()

    def known(self) -> list[str]:
        """Every name, for hints."""
        each = [self.each] if self.each else []
        return [*self.lets, *self.thresholds, *self.fields, *each, *self.registry.signals, *self.registry.events]


def parse(source: str, names: Names, *, rooted: bool = True) -> Expression:
    """Check an expression.

    `rooted` expressions are evaluated for the subject of the rule, so that every signal in them must be one of that
    subject or of what it belongs to. Others (`let`) may be meant for the members of a group. Raises ExpressionError.
    """
    scanned = scan(source)
    try:
        tree = ast.parse(f"({scanned.text})", mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _syntax_error(error, source) from None
    parser = Parser(names, scanned)
    found = parser.visit(tree.body)
    if rooted:
        parser.require(names.scope)
    return Expression(source, found.node, found.type, tuple(parser.scopes), tuple(parser.event_scopes))


def parse_condition(source: str, names: Names) -> Expression:
    """Check an expression that must be a condition. Raises ExpressionError."""
    found = parse(source, names)
    if found.type not in (TRUTH, ANY):
        raise ExpressionError(f"this is {found.type}, not a condition", 0, "compare it with something")
    return found


def _syntax_error(error: BaseException, source: str) -> ExpressionError:
    offset = error.offset - 2 if isinstance(error, SyntaxError) and error.offset else len(source)
    return ExpressionError("the expression cannot be read here", max(0, min(offset, len(source))))


class Parser:
    """Walks one Python syntax tree. `scopes` gathers the kinds of subject read, with the place of the first reading."""

    def __init__(self, names: Names, scanned: Scanned) -> None:
        self.names = names
        self.scopes: dict[SubjectKind, int] = {}
        self.event_scopes: dict[SubjectKind, int] = {}
        self._scanned = scanned
        self._nodes = 0
        self._depth = 0

    def visit(self, node: ast.expr) -> Typed:
        """Check one node and what is below it."""
        offset = max(0, node.col_offset - 1)  # a bare tuple begins at the bracket that was put around it all
        self._nodes += 1
        self._depth += 1
        if self._nodes > MAX_NODES:
            raise ExpressionError(f"more than {MAX_NODES} parts", offset, "split it with let:")
        if self._depth > MAX_DEPTH:
            raise ExpressionError(f"nested deeper than {MAX_DEPTH}", offset, "split it with let:")
        try:
            return self._dispatch(node, offset)
        finally:
            self._depth -= 1

    def _dispatch(self, node: ast.expr, offset: int) -> Typed:
        match node:
            case ast.Name():
                return self._name(node.id, offset)
            case ast.Constant(value=bool() as truth):
                return Typed(Const(truth), TRUTH, offset)
            case ast.Constant(value=str()):
                return Typed(Const(self.text(node)), TEXT, offset)
            case ast.BoolOp():
                parts = tuple(as_truth(self.visit(value)).node for value in node.values)
                return Typed(Logic("and" if isinstance(node.op, ast.And) else "or", parts), TRUTH, offset)
            case ast.UnaryOp():
                return operators.unary(node.op, self.visit(node.operand), offset)
            case ast.BinOp():
                return operators.binary(node.op, self.visit(node.left), self.visit(node.right), offset)
            case ast.Compare():
                return operators.compare(self, node, offset)
            case ast.IfExp():
                condition = as_truth(self.visit(node.test))
                yes, no = self.visit(node.body), self.visit(node.orelse)
                return Typed(Choice(condition.node, yes.node, no.node), same_type([yes, no]), offset)
            case ast.Subscript():
                read = self.read(node)
                return Typed(read, self.type_of(read), offset)
            case ast.Call():
                return self._call(node, offset)
        raise ExpressionError(f"{_words(node)} is not part of the language", offset)

    def _call(self, node: ast.Call, offset: int) -> Typed:
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
            name = node.func.id if isinstance(node.func, ast.Name) else "this"
            raise ExpressionError(f"there is no function {name}", offset, did_you_mean(name, FUNCTIONS))
        return BUILDERS[FUNCTIONS[node.func.id].kind](self, node, node.func.id)

    def _name(self, name: str, offset: int) -> Typed:
        number = self._scanned.numbers.get(offset)
        if number is not None:
            return Typed(Const(number.value), Type("number", number.dimension), offset)
        if name in _CONSTANTS:
            return Typed(Const(_CONSTANTS[name]), TRUTH, offset)
        names = self.names
        if name in names.lets:
            let = names.lets[name]
            for scope in let.scopes:
                self.scopes.setdefault(scope, offset)
            for scope in let.event_scopes:
                self.event_scopes.setdefault(scope, offset)
            return Typed(Name("let", name), let.type, offset)
        if name in names.thresholds:
            return Typed(Name("threshold", name), names.thresholds[name], offset)
        if name in names.fields:
            return Typed(Name("field", name), ANY, offset)
        if name == names.each:
            return Typed(Name("each", name), TEXT, offset)
        if name in names.registry.signals:
            read = self.signal(name, (), offset)
            return Typed(read, self.type_of(read), offset)
        if name in names.registry.events:
            raise ExpressionError(f"{name} is an event", offset, f"write exists({name}, 60s) or count({name}, 60s)")
        if name in FUNCTIONS:
            raise ExpressionError(f"{name} is a function", offset, f"write {FUNCTIONS[name].form}")
        raise ExpressionError(f"unknown name {name}", offset, did_you_mean(name, names.known()))

    def text(self, node: ast.expr) -> str:
        """The constant text that a node is. Raises ExpressionError."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return self._scanned.strings[node.col_offset - 1]
        raise ExpressionError("a constant text must stand here", node.col_offset - 1, 'write "x"')

    def read(self, node: ast.expr) -> Read:
        """The signal, with its labels, that a node names. Raises ExpressionError where it names none."""
        offset = node.col_offset - 1
        if isinstance(node, ast.Name):
            return self.signal(node.id, (), offset)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            keys: Iterable[ast.expr] = node.slice.elts if isinstance(node.slice, ast.Tuple) else (node.slice,)
            values: list[str] = []
            for key in keys:
                values.append(self.text(key))
            return self.signal(node.value.id, tuple(values), offset)
        raise ExpressionError("a signal must stand here, not an expression", offset)

    def signal(self, name: str, values: tuple[str, ...], offset: int) -> Read:
        """A signal by name, its labels selected by `values` in the declared order."""
        signal = self.names.registry.signals.get(name)
        if signal is None or name in self.names.lets:
            hint = did_you_mean(name, self.names.registry.signals)
            raise ExpressionError(f"{name} is not a signal", offset, hint)
        self.scopes.setdefault(signal.scope, offset)
        if signal.type == "info":
            if values:
                raise ExpressionError(f"the labels of {name} are not selected", offset, f'write label({name}, "...")')
            return Read(name)
        free = [label for label in signal.labels if label != self.names.each]
        if len(values) != len(free):
            wanted = ", ".join(f'"{label}"' for label in free)
            hint = f"write {name}[{wanted}]" if free else f"write {name}"
            if free and not values:
                hint += f" or evaluate the rule with each: {free[0]}"
            raise ExpressionError(f"{name} has the labels ({', '.join(free) or 'none'})", offset, hint)
        chosen: dict[str, str | None] = dict(zip(free, values, strict=True))
        chosen.update({label: None for label in signal.labels if label == self.names.each})
        return Read(name, tuple(sorted(chosen.items(), key=lambda item: item[0])))

    def type_of(self, read: Read) -> Type:
        """The type of a signal's value."""
        signal = self.names.registry.signals[read.signal]
        return TEXT if signal.type == "text" else Type("number", OF_SIGNAL[signal.unit])

    def require(self, scope: SubjectKind, scopes: Mapping[SubjectKind, int] | None = None) -> None:
        """Refuse what was read for another kind of subject than `scope` and what it belongs to."""
        scopes = self.scopes if scopes is None else scopes
        bad = unreachable(scopes, scope)
        if bad is not None:
            hint = "use a group function such as max_of(...), or another scope:"
            raise ExpressionError(f"this is measured for each {bad}, seen from a {scope}", scopes[bad], hint)


_WORDS = {
    ast.Tuple: "a list of values",
    ast.List: "a list of values",
    ast.ListComp: "a comprehension",
    ast.GeneratorExp: "a comprehension",
    ast.Starred: "a starred value",
    ast.Constant: "this constant",
}


def _words(node: ast.expr) -> str:
    return _WORDS.get(type(node), f"{type(node).__name__} of Python")
