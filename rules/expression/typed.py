"""Checked nodes with their types, while an expression is being parsed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from aidiag.rules.expression.errors import ExpressionError
from aidiag.rules.expression.tree import ANY, TRUTH, Call, Const, Node, Type
from aidiag.rules.expression.units import PLAIN, SECONDS


class Typed(NamedTuple):
    """A node, its type, and where in the text it starts."""

    node: Node
    type: Type
    offset: int

    @property
    def is_zero(self) -> bool:
        """Whether this is the literal 0, which fits every unit."""
        return isinstance(self.node, Const) and self.node.value == 0 and self.node.value is not False


def as_truth(found: Typed) -> Typed:
    """`found` as a condition."""
    if found.type == ANY:
        return Typed(Call("as_truth", (found.node,)), TRUTH, found.offset)
    if found.type != TRUTH:
        raise ExpressionError(f"this is {found.type}, not a condition", found.offset, "compare it with something")
    return found


def as_number(found: Typed) -> Typed:
    """`found` as a number."""
    if found.type == ANY:
        return Typed(Call("as_number", (found.node,)), Type("number"), found.offset)
    if found.type.name != "number":
        raise ExpressionError(f"this is {found.type}, not a number", found.offset)
    return found


def as_text(found: Typed) -> Typed:
    """`found` as a text."""
    if found.type == ANY:
        return Typed(Call("as_text", (found.node,)), Type("text"), found.offset)
    if found.type.name != "text":
        raise ExpressionError(f"this is {found.type}, not a text", found.offset)
    return found


def same_type(parts: Sequence[Typed]) -> Type:
    """The common type of values of which one is chosen. A literal 0 fits every unit."""
    leading = next((part for part in parts if not part.is_zero), parts[0])
    for part in parts:
        if part.type != leading.type and not (part.is_zero and leading.type.name == "number"):
            raise ExpressionError(f"this is {part.type}, the other is {leading.type}", part.offset, hint(part, leading))
    return leading.type


def hint(one: Typed, other: Typed) -> str:
    """What to write where two numbers have different units."""
    bare = next((part for part in (one, other) if isinstance(part.node, Const) and part.type.dimension == PLAIN), None)
    if bare is None:
        return ""
    wanted = other if bare is one else one
    if wanted.type.dimension == SECONDS:
        return "give the number a unit, such as 30s or 10ms"
    if wanted.type.dimension.bytes == 1:
        return "give the number a unit, such as 4GiB" + ("/s" if wanted.type.dimension.seconds else "")
    if wanted.type.dimension.seconds == -1:
        return "give the number a unit, such as 2 / 1s"
    return "give the number a unit"
