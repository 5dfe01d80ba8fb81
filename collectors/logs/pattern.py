r"""The pattern language of the message catalogue: the message as it is printed, with typed fields in it.

    Net : Connect to <peer:word> failed : <error:text>

| written        | matches                                                                               |
|----------------|---------------------------------------------------------------------------------------|
| `<name:type>`  | a field of a type of `TYPES`                                                          |
| `<name:NCCL_*>` | a word that begins so                                                                |
| `<name=A\|B>`   | one of these texts, as the value of the field; a field `_` is not kept                 |
| `{...}`        | the part may be missing                                                               |
| `{a\|b}`        | one of the parts, each of which may hold fields                                       |
| two blanks     | any run of blanks and tabs                                                            |
| `\`            | takes the special meaning from the next character                                     |

The regular expression that a pattern becomes never backtracks into a field: the fields with a loose end (`word`,
`text`) take as little as they can and are then fixed, so that the time for a line stays linear in its length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TypeAlias

from aidiag.collectors.logs.fieldtypes import TYPES, Type, as_text
from aidiag.collectors.logs.ordinary import ORDINARY


class PatternError(ValueError):
    """A pattern that cannot be read or is not safe, with the reason."""


@dataclass(frozen=True, slots=True)
class Literal:
    """Text that must be there."""

    text: str


@dataclass(frozen=True, slots=True)
class Blanks:
    """A run of blanks and tabs."""


@dataclass(frozen=True, slots=True)
class Field:
    """A capture. `group` is its name in the expression, which differs from `name` where the name comes twice."""

    name: str
    group: str
    type: Type


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several parts; an empty one makes it optional."""

    options: tuple[Parts, ...]


Part: TypeAlias = "Literal | Blanks | Field | Choice"
Parts: TypeAlias = "tuple[Part, ...]"

_BLANKS = r"[ \t]{1,32}"
_FIELD = re.compile(r"<([a-z_][a-z0-9_]*)([:=])([^<>{}]+)>")


@dataclass(frozen=True, slots=True)
class Pattern:
    """One wording of a message. `literals`: every line that matches holds at least one of them; `ordinary`: so do lines that
    mean nothing.
    """

    source: str
    expression: str
    literals: tuple[str, ...] = ()
    ordinary: bool = False


def expression(source: str) -> str:
    """The regular expression (for bytes, as ASCII or UTF-8 text) of a pattern. Raises PatternError."""
    parts = read(source)
    if not parts:
        raise PatternError("the pattern is empty")
    first = parts[0]
    if isinstance(first, Field) and first.type.loose:
        raise PatternError(f"<{first.name}> at the start would be tried at every character: begin with fixed text")
    return _render(parts)


def outline(source: str) -> str:
    """A regular expression, for engines without backtracking, that stands in every line which the pattern matches: the pattern
    up to its last fixed text, from where its fixed text is the rarest in ordinary lines without being found in them.
    """
    parts = _trimmed(read(source))
    begins = {
        index: ORDINARY.count(part.text.encode()) for index, part in enumerate(parts) if isinstance(part, Literal)
    }
    tails = (_outline(parts[index:]) for index in sorted(begins, key=begins.__getitem__))
    return next((tail for tail in tails if not re.search(tail.encode(), ORDINARY)), _outline(parts))


def read(source: str) -> Parts:
    """The parts of a pattern. Raises PatternError."""
    return _Reader(source).all()


def fields(source: str) -> tuple[Field, ...]:
    """The fields of a pattern that are kept."""
    return tuple(field for field in _Reader(source).fields() if field.name != "_")


class _Reader:
    """Reads a pattern from left to right."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._names: dict[str, int] = {}
        self._fields: list[Field] = []

    def all(self) -> Parts:
        parts = self._sequence("")
        if self._at < len(self._source):
            raise PatternError(f"'{self._source[self._at]}' at column {self._at + 1} closes nothing")
        return parts

    def fields(self) -> list[Field]:
        self.all()
        return self._fields

    def _sequence(self, stops: str) -> Parts:
        parts: list[Part] = []
        literal: list[str] = []

        def close_literal() -> None:
            for index, piece in enumerate(re.split(r" {2,}", "".join(literal))):
                if index:
                    parts.append(Blanks())
                if piece:
                    parts.append(Literal(piece))
            literal.clear()

        while self._at < len(self._source):
            char = self._source[self._at]
            if char in stops or char == "}":
                break
            if char == "{":
                close_literal()
                parts.append(self._choice())
            elif char == "<" and (found := _FIELD.match(self._source, self._at)):
                close_literal()
                parts.append(self._field(*found.groups()))
                self._at = found.end()
            else:
                if char == "\\":
                    self._at += 1
                    char = self._source[self._at : self._at + 1]
                    if not char:
                        raise PatternError("a backslash ends the pattern")
                literal.append(char)
                self._at += 1
        close_literal()
        return tuple(parts)

    def _choice(self) -> Choice:
        opened = self._at
        options: list[Parts] = []
        while True:
            self._at += 1
            options.append(self._sequence("|"))
            if self._at >= len(self._source):
                raise PatternError(f"'{{' at column {opened + 1} is not closed")
            if self._source[self._at] == "}":
                break
        self._at += 1
        if len(options) == 1:
            options.append(())
        return Choice(tuple(options))

    def _field(self, name: str, sign: str, kind: str) -> Field:
        if sign == "=":
            type_ = Type("|".join(re.escape(word) for word in kind.split("|")), as_text, closed=True)
        elif kind in TYPES:
            type_ = TYPES[kind]
        elif re.fullmatch(r"[A-Za-z]\w*\*", kind):
            type_ = Type(re.escape(kind[:-1]) + r"\w{1,100}", as_text)
        else:
            raise PatternError(f"<{name}:{kind}>: no such type; there are {', '.join(TYPES)} and A*")
        count = self._names[name] = self._names.get(name, 0) + 1
        field = Field(name, name if count == 1 else f"{name}__{count}", type_)
        self._fields.append(field)
        return field


def _render(parts: Parts, after: Parts = (), captures: bool = True) -> str:
    """The expression of parts that are followed by `after`."""
    out: list[str] = []
    for index, part in enumerate(parts):
        rest = parts[index + 1 :] + after
        match part:
            case Literal(text):
                out.append(re.escape(text))
            case Blanks():
                out.append(_BLANKS)
            case Choice(options):
                full = [_render(option, rest, captures) for option in options if option]
                out.append(f"(?:{'|'.join(full)})" + ("" if all(options) else "?"))
            case Field(_, group, type_) if type_.loose:
                if not rest:
                    out.append(f"(?P<{group}>{type_.expression.removesuffix('?')})")
                    continue
                stops = "|".join(dict.fromkeys(_openings(rest, part)))
                # A lookahead is atomic, and the back reference takes what it found: no way back into the field.
                out.append(f"(?=(?P<{group}>{type_.expression})(?:{stops}))(?P={group})")
            case Field(_, group, type_):
                out.append(f"(?P<{group}>{type_.expression})" if captures else f"(?:{type_.expression})")
    return "".join(out)


def _openings(rest: Parts, field: Field) -> list[str]:
    """How the text after a field with a loose end can begin: alternatives, none of which matches nothing."""
    if not rest:
        return ["$"]
    head, tail = rest[0], rest[1:]
    match head:
        case Choice(options):
            return [opening for option in options for opening in _openings(option + tail, field)]
        case Field(name, _, type_) if type_.loose:
            raise PatternError(f"<{field.name}> and <{name}> touch: put fixed text between them")
        case Field(name, _, type_):
            raise PatternError(f"<{field.name}> and <{name}> touch: put fixed text between them")
    opening = _render((head,))
    if isinstance(head, Literal) and len(head.text) > 2:
        return [opening]
    # Little fixed text (a blank, a comma) says little: what must follow it counts too.
    follows = tail[:1] and not isinstance(tail[0], Choice) and not (isinstance(tail[0], Field) and tail[0].type.loose)
    return [opening + _render(tail[:1], captures=False) if follows else opening]


_REPEAT = re.compile(r"\{(\d+),\d{2,}\}")
_AHEAD = re.compile(r"\(\?[!=]\[[^\]]*\]\)")


def _trimmed(parts: Parts) -> Parts:
    """Parts without what can be longer, shorter or missing at the end: such an engine reports each end that is possible."""
    while parts:
        last = parts[-1]
        if isinstance(last, Choice):
            options = tuple(_trimmed(option) for option in last.options)
            if all(options):
                return (*parts[:-1], Choice(options))
        elif isinstance(last, Literal):
            return parts
        elif isinstance(last, Field) and last.type.opening:
            return (*parts[:-1], replace(last, type=Type(last.type.opening, as_text, closed=True)))
        elif isinstance(last, Field) and last.type.closed:
            return parts
        parts = parts[:-1]
    return parts


def _outline(parts: Parts) -> str:
    out: list[str] = []
    for part in parts:
        match part:
            case Literal(text):
                out.append("".join(f"\\x{byte:02x}" for byte in text.encode()))
            case Blanks():
                out.append(r"[ \t]+")
            case Choice(options):
                out.append(f"(?:{'|'.join(_outline(option) for option in options)})")
            case Field(_, _, type_) if type_.loose:
                out.append(r"[^\n]*")
            case Field(_, _, type_):
                without = _AHEAD.sub("", type_.expression)  # a look ahead only makes a match rarer
                unbounded = _REPEAT.sub(lambda found: "*" if found[1] == "0" else "+", without)
                out.append(f"(?:{unbounded})")
    return "".join(out)
