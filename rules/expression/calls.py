"""Calls of functions: their arguments checked, by the sort of function."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from aidiag.collectors.signal import EventKind, SignalType
from aidiag.collectors.subject import SUBJECT_KINDS, SubjectKind
from aidiag.rules.expression.errors import ExpressionError, did_you_mean
from aidiag.rules.expression.functions import FUNCTIONS, Kind
from aidiag.rules.expression.scopes import ABOVE, PARENT, member_kind
from aidiag.rules.expression.tree import (
    ANY,
    TEXT,
    TRUTH,
    Call,
    Const,
    Group,
    Node,
    OfEvent,
    OfReading,
    Share,
    Told,
    Type,
    Windowed,
)  # fmt: skip
from aidiag.rules.expression.typed import Typed, as_number, as_text, as_truth, same_type
from aidiag.rules.expression.units import PLAIN, SECONDS, TIMESTAMP

if TYPE_CHECKING:
    from aidiag.rules.expression.parsing import Parser

LONGEST_WINDOW_SECONDS = 900.0
"""What a Window remembers."""

_TAKES: dict[str, tuple[SignalType, ...]] = {
    "rate": ("counter",),
    "delta": ("counter", "gauge"),
    "first": ("gauge", "text"),
    "last": ("counter", "gauge", "text"),
    "changed": ("counter", "gauge", "text"),
    **dict.fromkeys(("avg", "min", "max", "p50", "p99"), ("gauge",)),
}
_INSTEAD = {"counter": "use rate or delta for a counter", "gauge": "use delta, or avg, for a gauge"}


def _window(parser: Parser, call: ast.Call, name: str) -> Typed:
    """rate, delta, avg, min, max, p50, p99, first, last, changed."""
    offset = call.col_offset - 1
    _arguments(call, name, 2)
    read = parser.read(call.args[0])
    signal = parser.names.registry.signals[read.signal]
    if signal.type not in _TAKES[name]:
        message = f"{signal.name} is a {signal.type}, {name} takes a {' or '.join(_TAKES[name])}"
        raise ExpressionError(message, offset, _INSTEAD.get(signal.type, ""))
    node = Windowed(name, read, _duration(parser, call.args[1]))
    if name == "changed":
        return Typed(node, TRUTH, offset)
    kind = parser.type_of(read)
    if kind.dimension == TIMESTAMP and name == "delta":
        kind = Type("number", SECONDS)
    if name == "rate":
        kind = Type("number", kind.dimension.over(SECONDS))
    return Typed(node, kind, offset)


def _share(parser: Parser, call: ast.Call, name: str) -> Typed:
    """share(condition, window)."""
    _arguments(call, name, 2)
    condition = as_truth(parser.visit(call.args[0]))
    for inner in ast.walk(call.args[0]):
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name):
            kind = FUNCTIONS[inner.func.id].kind
            if kind in ("window", "share", "group"):
                raise ExpressionError(f"share cannot look into {inner.func.id}", inner.col_offset - 1)
    return Typed(Share(condition.node, _duration(parser, call.args[1])), Type("number", PLAIN), call.col_offset - 1)


def _reading(parser: Parser, call: ast.Call, name: str) -> Typed:
    """age, exists, label, why_missing; age and exists take an event kind too."""
    offset = call.col_offset - 1
    if call.args and isinstance(call.args[0], ast.Name) and call.args[0].id in parser.names.registry.events:
        if name in ("age", "exists"):
            return _event(parser, call, name)
        raise ExpressionError(f"{name} takes a signal, not an event", offset, f"write {FUNCTIONS[name].form}")
    _arguments(call, name, 2 if name == "label" else 1)
    read = parser.read(call.args[0])
    if name == "exists":
        return Typed(OfReading(name, read), TRUTH, offset)
    if name == "age":
        return Typed(OfReading(name, read), Type("number", SECONDS), offset)
    if name == "why_missing":
        return Typed(OfReading(name, read), TEXT, offset)
    signal, label = parser.names.registry.signals[read.signal], parser.text(call.args[1])
    if signal.type != "info":
        raise ExpressionError(f"{signal.name} is a {signal.type}, label takes an info signal", offset)
    if label not in signal.labels:
        raise ExpressionError(f"{signal.name} has no label {label}", offset, did_you_mean(label, signal.labels))
    return Typed(OfReading(name, read, label), TEXT, offset)


def _event(parser: Parser, call: ast.Call, name: str) -> Typed:
    """age, exists, count and field of an event kind."""
    offset = call.col_offset - 1
    kind = _event_kind(parser, call, name)
    parser.event_scopes.setdefault(kind.scope, offset)
    if name == "field":
        _arguments(call, name, 2)
        wanted = parser.text(call.args[1])
        if wanted not in kind.fields:
            raise ExpressionError(f"{kind.name} has no field {wanted}", offset, did_you_mean(wanted, kind.fields))
        return Typed(OfEvent(name, kind.name, None, wanted), ANY, offset)
    _arguments(call, name, 1, 1 if name == "age" else 2)
    window = _duration(parser, call.args[1], longest=float("inf")) if len(call.args) > 1 else None
    found = {"exists": TRUTH, "count": Type("number"), "age": Type("number", SECONDS)}[name]
    return Typed(OfEvent(name, kind.name, window), found, offset)


def _told(parser: Parser, call: ast.Call, name: str) -> Typed:
    """anywhere, times, said, only, distinct and growth of an event kind, with fields that select."""
    offset = call.col_offset - 1
    kind, wanted = _event_kind(parser, call, name), ""
    if len(call.args) != (2 if name in ("said", "only", "distinct", "growth") else 1):
        raise ExpressionError(f"{name} is called wrongly", offset, f"write {FUNCTIONS[name].form}")
    if len(call.args) > 1:
        wanted = parser.text(call.args[1])
    where, like = [], []
    for keyword in call.keywords:
        value = parser.visit(keyword.value).node
        if isinstance(value, Const):
            where.append((keyword.arg or "**", value.value))
        else:
            like.append((keyword.arg or "**", value))
    for field in [*([wanted] if wanted else []), *(field for field, _ in where), *(field for field, _ in like)]:
        if field not in kind.fields and (field, kind.scope) != ("rank", "rank"):
            raise ExpressionError(f"{kind.name} has no field {field}", offset, did_you_mean(field, kind.fields))
    found = {"anywhere": TRUTH, "said": ANY, "only": ANY}.get(name, Type("number"))
    return Typed(Told(name, kind.name, wanted, tuple(sorted(where)), tuple(like)), found, offset)


def _event_kind(parser: Parser, call: ast.Call, name: str) -> EventKind:
    """The event kind that a function's first argument names."""
    kinds = parser.names.registry.events
    first = call.args[0] if call.args else None
    if isinstance(first, ast.Name) and first.id in kinds:
        return kinds[first.id]
    word = first.id if isinstance(first, ast.Name) else ""
    raise ExpressionError(f"{name} takes an event kind", call.col_offset - 1, did_you_mean(word, kinds))


def _group(parser: Parser, call: ast.Call, name: str) -> Typed:
    """p50_of and its kin: the value is evaluated for the members of a group, not for the subject itself."""
    offset = call.col_offset - 1
    if len(call.args) != 1:
        raise ExpressionError(f"{name} takes one expression", offset, f"write {FUNCTIONS[name].form}")
    outer, outer_events = parser.scopes, parser.event_scopes
    parser.scopes, parser.event_scopes = {}, {}
    value = parser.visit(call.args[0])
    value = as_truth(value) if name in ("count_of", "names_of") else as_number(value)
    where: Node | None = None
    within: SubjectKind | None = None
    for keyword in call.keywords:
        if keyword.arg == "where":
            where = as_truth(parser.visit(keyword.value)).node
        elif keyword.arg == "within":
            within = _kind(keyword.value)
        else:
            hint = "known: where=condition, within=host, within=job"
            raise ExpressionError(f"{name} takes no {keyword.arg or '**'}", keyword.value.col_offset - 1, hint)
    inner = parser.scopes or parser.event_scopes
    parser.scopes, parser.event_scopes = outer, outer_events
    scope = member_kind(inner, parser.names.scope)
    if scope is None:
        raise ExpressionError(f"{name} cannot tell which subjects its group has", offset, "read signals of one kind")
    parser.require(scope, inner)
    within = within or _group_root(scope, parser.names.scope, offset)
    if within not in ABOVE[parser.names.scope]:
        raise ExpressionError(f"a {parser.names.scope} belongs to no one {within}", offset)
    kind = {"count_of": Type("number"), "names_of": TEXT}.get(name, value.type)
    if kind.dimension == TIMESTAMP and name in ("spread_of", "mad_of"):
        kind = Type("number", SECONDS)
    return Typed(Group(name, value.node, where, scope, within), kind, offset)


def _group_root(scope: SubjectKind, rule_scope: SubjectKind, offset: int) -> SubjectKind:
    if scope != rule_scope and rule_scope in ABOVE[scope]:  # the children of the rule's subject
        return rule_scope
    if scope not in PARENT:
        raise ExpressionError(f"a {scope} has no siblings", offset)
    return PARENT[scope] if PARENT[scope] in ABOVE[rule_scope] else "job"


def _scalar(parser: Parser, call: ast.Call, name: str) -> Typed:
    """larger, smaller, abs, floor, ceil, or_else, contains, begins."""
    offset = call.col_offset - 1
    if call.keywords:
        raise ExpressionError(f"{name} takes no named argument", offset)
    values = [parser.visit(argument) for argument in call.args]
    form = f"write {FUNCTIONS[name].form}"
    if name in ("larger", "smaller"):
        if not 2 <= len(values) <= 8:
            raise ExpressionError(f"{name} takes two or more values", offset, form)
        values = [as_number(value) for value in values]
        return Typed(Call(name, tuple(value.node for value in values)), same_type(values), offset)
    if name in ("contains", "begins") and 2 <= len(values) <= 16:
        values = [as_text(value) for value in values]
        return Typed(Call(name, tuple(value.node for value in values)), TRUTH, offset)
    if len(values) != (1 if name in ("abs", "floor", "ceil") else 2):
        raise ExpressionError(f"{name} does not take {len(values)} values", offset, form)
    if name == "or_else":
        value, fallback = values
        if value.type == ANY and fallback.type != ANY:
            value = _as(fallback.type, value)
        return Typed(Call(name, (value.node, fallback.node)), same_type([value, fallback]), offset)
    number = as_number(values[0])
    return Typed(Call(name, (number.node,)), number.type, offset)


def _as(kind: Type, value: Typed) -> Typed:
    """A field of an event, whose type only the event knows, as what stands in for it: a number can be told as a text."""
    convert = {"number": "as_number", "truth": "as_truth", "text": "told_as_text"}[kind.name]
    return Typed(Call(convert, (value.node,)), kind, value.offset)


def _duration(parser: Parser, node: ast.expr, longest: float = LONGEST_WINDOW_SECONDS) -> Node:
    found = parser.visit(node)
    if found.type != Type("number", SECONDS):
        raise ExpressionError(f"a window is a duration, this is {found.type}", found.offset, "write 20s")
    value = found.node.value if isinstance(found.node, Const) else None
    if isinstance(value, float | int) and not 0 < value <= longest:
        raise ExpressionError(f"a window is longer than 0 and at most {longest:g}s", found.offset)
    return found.node


def _arguments(call: ast.Call, name: str, least: int, most: int | None = None) -> None:
    if call.keywords or not least <= len(call.args) <= (most or least):
        raise ExpressionError(f"{name} is called wrongly", call.col_offset - 1, f"write {FUNCTIONS[name].form}")


def _kind(node: ast.expr) -> SubjectKind:
    for kind in SUBJECT_KINDS:
        if isinstance(node, ast.Name) and node.id == kind:
            return kind
    raise ExpressionError("within is one of host, job", node.col_offset - 1)


BUILDERS: dict[Kind, Callable[[Parser, ast.Call, str], Typed]] = {
    "window": _window,
    "share": _share,
    "reading": _reading,
    "event": _event,
    "told": _told,
    "group": _group,
    "scalar": _scalar,
}
