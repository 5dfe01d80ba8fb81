"""The catalogue made ready for scanning, kept on disk between runs.

Checking every pattern and building the database takes a tenth of a second and more; a later process with the same catalogue and the
same hyperscan reads the result in a few milliseconds. The cache is a convenience: whatever is wrong with it, the catalogue is
compiled afresh.
"""

from __future__ import annotations

import contextlib
import hashlib
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import msgspec

from aidiag.collectors.bounded import read_bounded
from aidiag.collectors.logs import catalogue, pattern
from aidiag.collectors.logs.catalogue import Message
from aidiag.collectors.logs.pattern import Pattern
from aidiag.collectors.logs.prefilter import (
    HyperscanPrefilter,
    Prefilter,
    StdlibPrefilter,
    hyperscan_module,
    literal_expression,
)
from aidiag.collectors.user_cache import cache_folder, keep_newest, write_cache

FORMAT = 7
"""To be raised with every change of what a cache file holds or of how expressions are made."""
CACHE_LIMIT_BYTES = 64 << 20
CACHES_KEPT = 4
"""Each catalogue has its file; several versions may be in use side by side, those given up are removed."""


@dataclass(frozen=True, slots=True, eq=False)
class Wording:
    """One pattern of a message, with its place in the order of precedence."""

    order: int
    message: Message
    written: Pattern
    _regex: list[re.Pattern[bytes]] = field(default_factory=list)
    _fields: list[tuple[pattern.Field, ...]] = field(default_factory=list)

    @property
    def regex(self) -> re.Pattern[bytes]:
        """The expression, compiled when it is first needed."""
        if not self._regex:
            self._regex.append(re.compile(self.written.expression.encode()))
        return self._regex[0]

    @property
    def fields(self) -> tuple[pattern.Field, ...]:
        """The fields that are kept, read when they are first needed."""
        if not self._fields:
            self._fields.append(pattern.fields(self.written.source))
        return self._fields[0]


class Catalogue:
    """All messages, what announces them, and a prefilter for that.

    A wording is announced by a fixed text of its own (`texts`) or, for hyperscan where ordinary lines hold that too, by its outline.
    `by_text` has the wordings by the number of what was found: first those of all texts, then those of the outlines.
    """

    def __init__(self, messages: tuple[Message, ...], database: bytes | None = None, hyperscan: bool = True) -> None:
        self.messages = {message.id: message for message in messages}
        self.wordings: list[Wording] = []
        announced: dict[bytes, list[Wording]] = {}
        for message in messages:
            for wording in message.patterns:
                made = Wording(len(self.wordings), message, wording)
                self.wordings.append(made)
                for literal in wording.literals:
                    announced.setdefault(literal.encode(), []).append(made)
        weak = [one for one in self.wordings if one.written.ordinary and not one.message.repeats]
        outlined = {one.order for one in weak}
        self.texts = tuple(announced)
        self.by_text = (*map(tuple, announced.values()), *((one,) for one in weak))
        self._weak = tuple(weak)
        self._strong = frozenset(
            text
            for text, wordings in enumerate(announced.values())
            if any(one.order not in outlined for one in wordings)
        )
        self.repeating = frozenset(
            text for text, wordings in enumerate(self.by_text) if all(one.message.repeats for one in wordings)
        )
        """The texts of which it is enough to know that they stand in a block."""
        self._hyperscan = hyperscan and hyperscan_module() is not None
        self._database = database

    def prefilter(self) -> Prefilter:
        """A prefilter of one's own: hyperscan's scratch space serves one scan at a time."""
        # A wheel that loads may still fail on this CPU, and a database may be of another CPU: then go on without. Where
        # hyperscan refuses an outline, the texts alone will do.
        made: HyperscanPrefilter | None = None
        if self._hyperscan and self._database:
            with contextlib.suppress(Exception):
                made = HyperscanPrefilter({}, self.repeating, self._database, self._probe())
        for expressions in (self._outlined, self._literal):
            if self._hyperscan and made is None:
                with contextlib.suppress(Exception):
                    made = HyperscanPrefilter(expressions(), self.repeating)
                    self._database = made.dump()
        return made or StdlibPrefilter(self.texts)

    def _literal(self) -> dict[int, bytes]:
        """The texts as hyperscan takes them, by the number under which it reports them."""
        return {number: literal_expression(text) for number, text in enumerate(self.texts)}

    def _outlined(self) -> dict[int, bytes]:
        """The same with outlines in place of texts that ordinary lines hold."""
        texts = {number: one for number, one in self._literal().items() if number in self._strong}
        outlines = enumerate((pattern.outline(one.written.source).encode() for one in self._weak), len(self.texts))
        return {**texts, **dict(outlines)}

    def _probe(self) -> bytes:
        """A text that any database of this catalogue finds."""
        return self.texts[min(self._strong, default=0)] if self.texts else b""

    def database(self) -> bytes | None:
        """The compiled database, None without hyperscan."""
        self.prefilter()
        return self._database


class _Cached(msgspec.Struct):
    messages: tuple[Message, ...]
    database: bytes | None


@cache
def load_catalogue() -> Catalogue:
    """The catalogue of this package, from the user's cache where it is there. Raises CatalogueError."""
    return load(catalogue.MESSAGES, cache_folder())


def load(messages: Path, folder: Path | None, sources: Sequence[str] = catalogue.SOURCES) -> Catalogue:
    """The catalogue in the files `sources` of `messages`, by way of a cache in `folder`. Raises CatalogueError."""
    data = b"\0".join((messages / f"{source}.yaml").read_bytes() for source in sources)
    hyperscan = hyperscan_module()
    engine = f"hyperscan {hyperscan.__version__} {platform.machine()}" if hyperscan else "stdlib"
    key = hashlib.sha256(f"{FORMAT} {engine} ".encode() + data).hexdigest()[:32]
    path = folder / f"messages-{key}.bin" if folder else None
    if path and (cached := _read(path)):
        return Catalogue(cached.messages, cached.database)
    made = Catalogue(catalogue.read_catalogue(messages, sources))
    if path:
        _write(path, _Cached(tuple(made.messages.values()), made.database()))
        keep_newest(path.parent, "messages-*.bin", CACHES_KEPT)
    return made


def _read(path: Path) -> _Cached | None:
    """A cache file that is whole and ours."""
    try:
        data = read_bounded(path, CACHE_LIMIT_BYTES, ours=True)
        digest, payload = data[:32], data[32:]
        if hashlib.sha256(payload).digest() != digest:
            return None
        cached = msgspec.msgpack.decode(payload, type=_Cached)
        return cached if cached.messages else None
    except (OSError, ValueError, msgspec.MsgspecError):
        return None


def _write(path: Path, cached: _Cached) -> None:
    payload = msgspec.msgpack.encode(cached)
    write_cache(path, hashlib.sha256(payload).digest() + payload)
