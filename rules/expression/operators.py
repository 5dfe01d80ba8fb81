"""Arithmetic and comparisons: which units go together, and what comes out."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from aidiag.rules.expression.errors import ExpressionError
from aidiag.rules.expression.tree import ANY, TRUTH, Call, Compare, Const, Logic, Node, OneOf, Type
from aidiag.rules.expression.typed import Typed, as_number, as_text, as_truth, hint
from aidiag.rules.expression.units import SECONDS, TIMESTAMP, Dimension

if TYPE_CHECKING:
    from aidiag.rules.expression.parsing import Parser

_ARITHMETIC: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip


def unary(operator: ast.unaryop, value: Typed, offset: int) -> Typed:
    """`not a` and `-a`."""
    if isinstance(operator, ast.Not):
        return Typed(Logic("not", (as_truth(value).node,)), TRUTH, offset)
    if not isinstance(operator, ast.USub):
        raise ExpressionError("only - and not can stand before a value", offset)
    number = as_number(value)
    if isinstance(number.node, Const):
        return Typed(Const(-number.node.value), number.type, offset)  # type: ignore[operator]
    return Typed(Call("negative", (number.node,)), number.type, offset)


def binary(operator: ast.operator, left: Typed, right: Typed, offset: int) -> Typed:
    """`a + b` and its kin."""
    symbol = _ARITHMETIC.get(type(operator))
    if symbol is None:
        raise ExpressionError("the operators are + - * /", right.offset, "floor(a / b) divides without a rest")
    left, right = as_number(left), as_number(right)
    dimension = _dimension(symbol, left, right)
    return Typed(Call(symbol, (left.node, right.node)), Type("number", dimension), offset)


def _dimension(symbol: str, left: Typed, right: Typed) -> Dimension:
    one, other = left.type.dimension, right.type.dimension
    if symbol == "*":
        return one.times(other)
    if symbol == "/":
        if right.is_zero:
            raise ExpressionError("division by zero", right.offset)
        return one.over(other)
    if one == other:
        return SECONDS if symbol == "-" and one == TIMESTAMP else one
    if one == TIMESTAMP and other == SECONDS:
        return TIMESTAMP
    if left.is_zero:
        return other
    if right.is_zero:
        return one
    raise ExpressionError(f"{one} and {other} do not go together", right.offset, hint(left, right))


def compare(parser: Parser, node: ast.Compare, offset: int) -> Typed:
    """`a < b <= c`, `a == "x"`, `a in ("x", "y")`."""
    if isinstance(node.ops[0], ast.In | ast.NotIn):
        if len(node.ops) > 1:
            raise ExpressionError("in cannot be chained", offset, "use and")
        return _one_of(parser, node, offset)
    operands = [parser.visit(node.left)]
    symbols: list[str] = []
    for operator, right in zip(node.ops, node.comparators, strict=True):
        symbol = _COMPARISONS.get(type(operator))
        if symbol is None:
            raise ExpressionError("the comparisons are == != < <= > >= and in", right.col_offset - 1)
        operands.append(parser.visit(right))
        symbols.append(symbol)
    numeric = any(part.type.name == "number" for part in operands)
    textual = any(part.type.name == "text" for part in operands)
    if not numeric and not textual and any(part.type == TRUTH for part in operands):
        raise ExpressionError("a condition is not compared", operands[0].offset, "use and, or, not")
    ordered = any(symbol not in ("==", "!=") for symbol in symbols)
    if textual and ordered:
        raise ExpressionError("texts have no order", operands[1].offset, "use == or !=")
    if textual:
        nodes = [as_text(part).node for part in operands]
    elif numeric or ordered:
        nodes = _same_unit(operands)
    else:  # two fields of the event, whatever they are
        nodes = [part.node for part in operands]
    return Typed(Compare(tuple(symbols), tuple(nodes)), TRUTH, offset)


def _same_unit(operands: list[Typed]) -> list[Node]:
    """Numbers of one unit. A field of an event has the unit of what it is compared with."""
    fields = [part for part in operands if part.type == ANY]
    numbers = [as_number(part) for part in operands if part.type != ANY]
    leading = next((part for part in numbers if not part.is_zero), None)
    for part in numbers:
        if leading is not None and part.type != leading.type and not part.is_zero:
            message = f"{leading.type} is compared with {part.type}"
            raise ExpressionError(message, part.offset, hint(part, leading))
    return [as_number(part).node if part in fields else part.node for part in operands]


def _one_of(parser: Parser, node: ast.Compare, offset: int) -> Typed:
    value, right = parser.visit(node.left), node.comparators[0]
    if not isinstance(right, ast.Tuple | ast.List) or not right.elts:
        raise ExpressionError("in needs a list of constants", right.col_offset - 1, 'write in ("a", "b")')
    options: list[bool | float | str] = []
    for element in right.elts:
        option = parser.visit(element)
        if not isinstance(option.node, Const):
            raise ExpressionError("in needs constants", option.offset)
        if ANY not in (value.type, option.type) and option.type != value.type:
            raise ExpressionError(f"{value.type} is compared with {option.type}", option.offset, hint(option, value))
        options.append(option.node.value)
    if value.type == TRUTH:
        raise ExpressionError("a condition is not compared", value.offset, "use and, or, not")
    found: Node = OneOf(value.node, tuple(options))
    if isinstance(node.ops[0], ast.NotIn):
        found = Logic("not", (found,))
    return Typed(found, TRUTH, offset)
