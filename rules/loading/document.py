"""A YAML file as plain data, with the place of every value.

YAML 1.2 core scalars (yaml.org/spec/1.2.2, 10.3), whatever PyYAML's own resolvers would make of them: `no` and `on` are
texts, `12:30` is one too. No tags, no duplicate keys, bounded size, depth and expansion of aliases.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from aidiag.rules.loading.errors import LARGEST_BYTES, RuleError

MOST_VALUES = 20_000
DEEPEST = 32

Route: TypeAlias = tuple[str | int, ...]
"""The way to a value: keys and indices from the top."""

_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULLS = {"", "~", "null", "Null", "NULL"}
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """PyYAML's composer without its YAML 1.1 resolvers."""

    yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012 - PyYAML's own name


@dataclass(slots=True)
class Document:
    """The data of a file. `keys` and `values` hold the nodes at which the key and the value of a route stand."""

    path: str
    text: str
    data: Any = None
    keys: dict[Route, yaml.Node] = field(default_factory=dict)
    values: dict[Route, yaml.Node] = field(default_factory=dict)

    def error(
        self, route: Route, message: str, remedy: str = "", *, at_key: bool = False, offset: int = 0
    ) -> RuleError:
        """An error at a value, or at its key; `offset` counts characters into a text value."""
        place, at_key = route, at_key and route in self.keys
        while place and place not in self.values and place not in self.keys:
            place = place[:-1]
        node = self.keys[place] if at_key else self.values.get(place) or self.keys.get(place)
        if node is None:
            return RuleError(self.path, 1, 1, message, remedy)
        index = self._index(node, offset) if isinstance(node, yaml.ScalarNode) and not at_key else node.start_mark.index
        before = self.text[:index]
        return RuleError(
            self.path, before.count("\n") + 1, index - (before.rfind("\n") + 1) + 1, _named(route, message), remedy
        )

    def _index(self, node: yaml.ScalarNode, offset: int) -> int:
        """Where in the file the character `offset` of a scalar stands.

        Folding changes blanks only, so that the n-th other character of the value is the n-th one in the file.
        """
        start, end = node.start_mark.index, node.end_mark.index
        if node.style in ("|", ">"):
            start = self.text.find("\n", start) + 1
        elif node.style in ("'", '"'):
            start += 1
        wanted = sum(not character.isspace() for character in node.value[:offset])
        for index in range(start, end):
            if not self.text[index].isspace():
                if not wanted:
                    return index
                wanted -= 1
        return max(start, end - (node.style in ("'", '"')))


def _named(route: Route, message: str) -> str:
    words = ".".join(str(part) for part in route)
    return f"{words}: {message}" if words else message


def read_document(path: Path | str, content: bytes) -> Document:
    """The one document of a YAML file. Raises RuleError."""
    name = str(path)
    if len(content) > LARGEST_BYTES:
        raise RuleError(name, 0, 0, f"larger than {LARGEST_BYTES >> 10} KiB", "one rule a file")
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise RuleError(name, line, 1, "not UTF-8 text", "save it as UTF-8") from None
    document = Document(name, text)
    try:
        top = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        said = ", ".join(filter(None, (error.context, error.problem)))
        raise RuleError(name, line, column, said, "check the YAML syntax") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise RuleError(name, 1, 1, f"not YAML: {str(error).splitlines()[0]}") from None
    if top is None:
        raise RuleError(name, 1, 1, "the file is empty")
    document.data = _Builder(document).build(top, ())
    return document


class _Builder:
    """Builds the data of a document and notes its places."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._count = 0

    def build(self, node: yaml.Node, route: Route) -> Any:
        document = self._document
        document.values[route] = node
        self._count += 1
        if self._count > MOST_VALUES:
            raise document.error(route, "too many values", "use fewer aliases")
        if len(route) > DEEPEST:
            raise document.error(route[:1], "nested too deeply", "an alias may contain itself")
        kind = {yaml.MappingNode: "map", yaml.SequenceNode: "seq", yaml.ScalarNode: "str"}[type(node)]
        if node.tag != f"tag:yaml.org,2002:{kind}":
            raise document.error(route, f"the tag {node.tag} is not used here", "remove it")
        if isinstance(node, yaml.MappingNode):
            return dict(self._items(node, route))
        if isinstance(node, yaml.SequenceNode):
            return [self.build(item, (*route, index)) for index, item in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        return node.value if node.style else scalar(node.value)

    def _items(self, node: yaml.MappingNode, route: Route) -> Iterator[tuple[str, Any]]:
        seen: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._document.error(route, "a key must be a word")
            below = (*route, key.value)
            self._document.keys[below] = key
            if key.value in seen:
                raise self._document.error(below, "this key stands here twice", "keep one", at_key=True)
            seen.add(key.value)
            yield key.value, self.build(value, below)


def scalar(text: str) -> bool | int | float | str | None:
    """What a plain scalar means in the core schema of YAML 1.2. What is not finite stays text."""
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text) and not _NOT_FINITE.fullmatch(text):
        return float(text)
    return text
