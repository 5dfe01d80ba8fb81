"""From the text of an expression to text that Python's parser reads.

Unit literals are no Python, and texts may hold any character, which Python's parser counts in bytes. Each is overwritten
by underscores of the same length, so that columns stay true, and is remembered by its offset. Everything that is not a name, number, string or operator of the language is refused here,
and so is text that is too long or too deeply nested, before a parser with a C stack sees it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from aidiag.rules.expression.errors import ExpressionError
from aidiag.rules.expression.units import NUMBER, Quantity, quantity

MAX_CHARACTERS = 2_000
MAX_DEPTH = 20

_TOKEN = re.compile(
    rf"""(?P<space>[ \t\r\n]+)
    |(?P<string>"[^"\\\r\n]*"|'[^'\\\r\n]*')
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>{NUMBER})(?P<unit>%|[A-Za-zµ]+(?:/s\b)?)?(?![A-Za-z0-9_.%])
    |(?P<operator><=|>=|==|!=|[-+*/<>=,()\[\]])""",
    re.VERBOSE | re.ASCII,
)
_CLOSING = {")": "(", "]": "["}
_WORDS = {"&&": "and", "||": "or", "!": "not", "&": "and", "|": "or"}


class Scanned(NamedTuple):
    """Text for Python's parser with the same offsets, and the literals in it by their offset."""

    text: str
    numbers: dict[int, Quantity]
    strings: dict[int, str]


def scan(source: str) -> Scanned:
    """Check the characters, size and nesting of an expression and take its literals out.

    Raises ExpressionError.
    """
    if len(source) > MAX_CHARACTERS:
        raise ExpressionError(f"longer than {MAX_CHARACTERS} characters", MAX_CHARACTERS, "split it with let:")
    parts: list[str] = []
    numbers: dict[int, Quantity] = {}
    strings: dict[int, str] = {}
    last = ""
    brackets: list[tuple[str, int]] = []
    offset = 0
    while offset < len(source):
        token = _TOKEN.match(source, offset)
        if token is None:
            raise _unreadable(source, offset)
        text = token[0]
        if token.lastgroup == "space":
            text = " " * len(text)
        elif token["number"] is not None:
            numbers[offset] = quantity(token["number"], token["unit"] or "", offset)
            text = "_" * len(text)
        elif token["string"] is not None:
            if last == "string":
                raise ExpressionError("two texts stand side by side", offset)
            strings[offset] = text[1:-1]
            text = '"' + "_" * (len(text) - 2) + '"'
        elif token["operator"] is not None:
            _nest(text, offset, brackets)
        last = last if token.lastgroup == "space" else token.lastgroup or ""
        parts.append(text)
        offset = token.end()
    if brackets:
        raise ExpressionError(f"{brackets[-1][0]} is never closed", brackets[-1][1])
    if not "".join(parts).strip():
        raise ExpressionError("nothing is written here")
    return Scanned("".join(parts), numbers, strings)


def _nest(operator: str, offset: int, brackets: list[tuple[str, int]]) -> None:
    if operator in ("(", "["):
        brackets.append((operator, offset))
        if len(brackets) > MAX_DEPTH:
            raise ExpressionError(f"nested deeper than {MAX_DEPTH}", offset, "split it with let:")
    elif operator in _CLOSING and (not brackets or brackets.pop()[0] != _CLOSING[operator]):
        raise ExpressionError(f"{operator} closes nothing", offset)


def _unreadable(source: str, offset: int) -> ExpressionError:
    character = source[offset]
    word = _WORDS.get(source[offset : offset + 2]) or _WORDS.get(character)
    hint = f"write {word}" if word else ""
    if character.isdigit():
        return ExpressionError("a number runs into what follows", offset, "put a space or an operator between them")
    if character in "\"'":
        hint = "close the string on the same line and use no backslash"
    return ExpressionError(f"{character!r} has no meaning here", offset, hint)
