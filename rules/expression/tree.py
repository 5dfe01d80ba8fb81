"""Checked expressions: what the parser makes and the compiler reads. Plain data, so that they can be cached."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from aidiag.collectors.subject import SubjectKind
from aidiag.rules.expression.units import PLAIN, Dimension

TypeName: TypeAlias = Literal["number", "truth", "text", "any"]


class Type(NamedTuple):
    """The type of an expression. `any` is a field of an event, whose type only the event knows."""

    name: TypeName
    dimension: Dimension = PLAIN

    def __str__(self) -> str:
        if self.name == "number":
            return str(self.dimension)
        return {"truth": "a condition", "text": "a text", "any": "a field of an event"}[self.name]


TRUTH = Type("truth")
TEXT = Type("text")
ANY = Type("any")


class Const(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A constant in base units."""

    value: bool | float | str


class Name(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A let, a threshold, a field of the event, or the label that `each` binds."""

    kind: Literal["let", "threshold", "field", "each"]
    name: str


class Read(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A signal with its labels; the value None stands for the one that `each` binds."""

    signal: str
    labels: tuple[tuple[str, str | None], ...] = ()


class Windowed(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A function over a window of one signal."""

    function: str
    read: Read
    window: Node


class Share(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The part of a window in which a condition held."""

    condition: Node
    window: Node


class OfReading(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """age, exists, label and why_missing of a signal."""

    function: str
    read: Read
    argument: str = ""


class OfEvent(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """age, exists, count and field of an event kind."""

    function: str
    kind: str
    window: Node | None = None
    argument: str = ""


class Told(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """anywhere, times, said, only and distinct of an event kind, of the events whose fields have the values of `where`, which
    are constants, and of `like`, which are calculated.
    """

    function: str
    kind: str
    argument: str = ""
    where: tuple[tuple[str, bool | float | str], ...] = ()
    like: tuple[tuple[str, Node], ...] = ()


class Group(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A function over the members of a group: subjects of kind `scope` below the subject's `within`."""

    function: str
    value: Node
    where: Node | None
    scope: SubjectKind
    within: SubjectKind


class Call(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A function of values; the arithmetic operators are among them."""

    function: str
    arguments: tuple[Node, ...]


class Compare(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A comparison, chained where there are more than two operands."""

    operators: tuple[str, ...]
    operands: tuple[Node, ...]


class OneOf(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Whether a value is one of some constants."""

    value: Node
    options: tuple[bool | float | str, ...]


class Logic(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Three-valued `and`, `or`, `not`."""

    operator: Literal["and", "or", "not"]
    operands: tuple[Node, ...]


class Choice(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """`yes if condition else no`."""

    condition: Node
    yes: Node
    no: Node


Node: TypeAlias = (
    Const
    | Name
    | Read
    | Windowed
    | Share
    | OfReading
    | OfEvent
    | Told
    | Group
    | Call
    | Compare
    | OneOf
    | Logic
    | Choice
)


def walk(node: Node) -> Iterator[Node]:
    """A node and all nodes below it."""
    yield node
    for name in node.__struct_fields__:
        found = getattr(node, name)
        for part in found if isinstance(found, tuple) else (found,):
            if isinstance(part, msgspec.Struct):
                yield from walk(part)  # type: ignore[arg-type]


class Expression(msgspec.Struct, frozen=True, array_like=True):
    """A checked expression: its text, tree and type, and the kinds of subject whose signals and events it asks for."""

    source: str
    tree: Node
    type: Type
    scopes: tuple[SubjectKind, ...]
    event_scopes: tuple[SubjectKind, ...] = ()
