"""The compile gate: what an expression must be like before it may meet a log.

Python's `re` holds the interpreter lock while it matches, and a bad expression needs more than ten seconds for a line of
24 digits. So an expression is refused that has a repeat inside a repeat or two that touch, that starts with a long
repeat, or that holds no fixed text by which the scanner can find its lines.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from aidiag.collectors.logs.ordinary import ORDINARY
from aidiag.collectors.logs.pattern import PatternError

if sys.version_info >= (3, 11):
    from re import _constants as constants  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]
else:  # pragma: no cover - other Python
    import sre_constants as constants
    import sre_parse as parser

LITERAL_MIN_BYTES = 5
LITERAL_MAX_COUNT = 8
SHORT_REPEAT = 32
"""A repeat of at most this many characters is cheap wherever it stands."""

_REPEATS = frozenset({constants.MAX_REPEAT, constants.MIN_REPEAT} | {getattr(constants, "POSSESSIVE_REPEAT", None)})


def check(expression: bytes) -> None:
    """Raise PatternError with the reason when an expression could take more than linear time."""
    tree = parser.parse(expression)
    _no_nesting(tree, inside=False)
    _no_neighbours(tree)
    first = _first(tree)
    if first is not None and _long(first):
        raise PatternError("a long repeat at the start would be tried at every character: begin with fixed text")


def required_literals(expression: bytes) -> tuple[bytes, ...]:
    """The best set of texts of which every match holds at least one. Raises PatternError when there is none."""
    best = max(_candidates(parser.parse(expression)), key=_worth, default=())
    if not best:
        raise PatternError("no fixed text that every match must hold")
    shortest = min(best, key=len)
    if len(shortest) < LITERAL_MIN_BYTES:
        raise PatternError(f"the longest fixed text, {shortest.decode()!r}, is shorter than {LITERAL_MIN_BYTES} bytes")
    return best


def ordinary(literals: Iterable[bytes]) -> bool:
    """Whether one of some texts stands in lines that mean nothing."""
    return any(literal in ORDINARY for literal in literals)


def _worth(literals: tuple[bytes, ...]) -> tuple[bool, int, int]:
    shortest = min(map(len, literals))
    return (shortest >= LITERAL_MIN_BYTES and not ordinary(literals), shortest, -len(literals))


def _long(item: tuple[Any, Any]) -> bool:
    op, value = item
    return op in _REPEATS and bool(value[1] > SHORT_REPEAT)


def _children(item: tuple[Any, Any]) -> Iterable[Any]:
    op, value = item
    if op in _REPEATS:
        return (value[2],)
    if op is constants.BRANCH:
        return tuple(value[1])
    if op is constants.SUBPATTERN:
        return (value[3],)
    if op in (constants.ASSERT, constants.ASSERT_NOT):
        return (value[1],)
    if op is getattr(constants, "ATOMIC_GROUP", None):
        return (value,)
    return ()


def _no_nesting(tree: Any, inside: bool) -> None:
    for item in tree:
        op, value = item
        varies = op in _REPEATS and value[0] != value[1] and value[1] > 1
        if varies and inside:
            raise PatternError("a repeat inside a repeat can take exponential time")
        for child in _children(item):
            _no_nesting(child, inside or (op in _REPEATS and value[1] > 1))


def _no_neighbours(tree: Any) -> None:
    loose = False
    for item in _flat(tree):
        op, value = item
        if op in _REPEATS:
            if _long(item) and loose:
                raise PatternError("two long repeats that touch can take quadratic time: put fixed text between them")
            loose = (loose and value[0] == 0) or _long(item)
        elif op is not constants.AT:
            loose = False
        for child in _children(item):
            _no_neighbours(child)


def _flat(tree: Any) -> Iterable[tuple[Any, Any]]:
    """The items of a sequence, those of plain groups in place of the group."""
    for item in tree:
        if item[0] is constants.SUBPATTERN:
            yield from _flat(item[1][3])
        else:
            yield item


def _first(tree: Any) -> tuple[Any, Any] | None:
    return next(iter(_flat(tree)), None)


def _candidates(tree: Any) -> Iterable[tuple[bytes, ...]]:
    run = bytearray()
    for item in _flat(tree):
        op, value = item
        if op is constants.LITERAL:
            run.append(value)
            continue
        if run:
            yield (bytes(run),)
            run.clear()
        if op is constants.BRANCH:
            options = [max(_candidates(option), key=_worth, default=()) for option in value[1]]
            if all(options):
                union = tuple(dict.fromkeys(literal for option in options for literal in option))
                if len(union) <= LITERAL_MAX_COUNT:
                    yield union
        elif op in _REPEATS and value[0] >= 1:
            yield from _candidates(value[2])
    if run:
        yield (bytes(run),)
