"""Finding what announces a message in blocks of bytes: the first stage of the scanner.

Two engines do it: hyperscan, at more than a gigabyte a second, and the standard library, at some megabytes,
where no hyperscan wheel exists or it does not load. What they announce may differ, what the second stage makes of it may not.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

Found = tuple[int, int]
"""Where something ends in the block, and the number of what it is."""


class Prefilter(Protocol):
    """Finds which of a fixed list of things stand in a block, and where."""

    def find(self, data: bytes) -> list[Found]:
        """All occurrences, in the order of their ends; of some perhaps only one."""


def hyperscan_module() -> Any | None:
    """The hyperscan module, None where it is missing or does not load (other CPU, broken wheel)."""
    try:
        return importlib.import_module("hyperscan")
    except (ImportError, OSError, RuntimeError, SystemError, AttributeError):
        return None


def literal_expression(text: bytes) -> bytes:
    """The expression of a fixed text, whatever its bytes."""
    return b"".join(b"\\x%02x" % byte for byte in text)


class HyperscanPrefilter:
    """Hyperscan over whole blocks. `expressions` are reported by their numbers; of those in `once` one occurrence in each
    block. `database` is what `dump` gave earlier for the same, in which `probe` must be found. Raises hyperscan's errors, ValueError
    for a database of something else.
    """

    def __init__(
        self,
        expressions: Mapping[int, bytes],
        once: Collection[int] = (),
        database: bytes | None = None,
        probe: bytes = b"",
    ) -> None:
        hyperscan = importlib.import_module("hyperscan")
        if database is None:
            self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
            self._database.compile(
                expressions=list(expressions.values()),
                ids=list(expressions),
                elements=len(expressions),
                flags=[hyperscan.HS_FLAG_SINGLEMATCH if number in once else 0 for number in expressions],
            )
        else:
            self._database = hyperscan.loadb(database, hyperscan.HS_MODE_BLOCK)
            # A loaded database has no scratch space, and scanning without one crashes.
            self._database.scratch = hyperscan.Scratch(self._database)
            if probe and self.find(probe) == []:
                raise ValueError("the database is of other texts")

    def dump(self) -> bytes:
        """The compiled database, for this version of hyperscan and this kind of CPU."""
        hyperscan = importlib.import_module("hyperscan")
        return bytes(hyperscan.dumpb(self._database))

    def find(self, data: bytes) -> list[Found]:
        """All occurrences, in the order of their ends."""
        found: list[Found] = []

        def keep(text: int, _start: int, end: int, _flags: int, _context: object) -> None:
            found.append((end, text))

        self._database.scan(data, keep)
        return sorted(found)


class StdlibPrefilter:
    """One expression that shares the beginnings of all texts finds the lines, `bytes.find` the texts in them."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        self._texts = tuple(texts)
        self._any = re.compile(_any_of(self._texts)) if texts else None

    def find(self, data: bytes) -> list[Found]:
        """All occurrences, in the order of their ends."""
        found: list[Found] = []
        at = 0
        while self._any and (hit := self._any.search(data, at)):
            start = data.rfind(b"\n", 0, hit.start()) + 1
            end = data.find(b"\n", hit.end())
            end = len(data) if end < 0 else end
            line = data[start:end]
            for index, text in enumerate(self._texts):
                place = line.find(text)
                while place >= 0:
                    found.append((start + place + len(text), index))
                    place = line.find(text, place + 1)
            at = end
        return sorted(found)


def _any_of(texts: Iterable[bytes]) -> bytes:
    """An expression for any of the texts, as a tree of their common beginnings."""
    by_first: dict[bytes, list[bytes]] = {}
    for text in texts:
        by_first.setdefault(text[:1], []).append(text[1:])
    if b"" in by_first:  # one text ends here: it is found, whatever may follow
        return b""
    branches = []
    for first, tails in sorted(by_first.items()):
        branches.append(re.escape(first) + (re.escape(tails[0]) if len(tails) == 1 else _any_of(tails)))
    return branches[0] if len(branches) == 1 else b"(?:" + b"|".join(branches) + b")"
