"""The block scanner: from blocks of whole lines to the lines that hold a message of the catalogue.

Stage one looks for the fixed texts of all messages in the whole block at once. Stage two runs the full expressions, with their
captures, on the lines where one was found, and only those of the messages that the texts announce.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from aidiag.collectors.logs.compiled import Catalogue, Wording
from aidiag.collectors.logs.lines import LINE_END, Block, Visible, decode
from aidiag.collectors.logs.prefix import read_labels
from aidiag.collectors.observation import FieldValue

TEXT_LIMIT = 400
"""Evidence quotes at most this many characters of a line."""

TEXT_LEAD = 120
"""Of a longer line the quotation starts at most this far before the message."""

MATCHES_PER_WORDING = 16


@dataclass(frozen=True, slots=True)
class Hit:
    """One message on a line, from `start` to `end` of its visible text."""

    wording: Wording
    start: int
    end: int
    fields: Mapping[str, FieldValue]


@dataclass
class Line:
    """A line with what was found on it. `at` is where it starts in its block."""

    block: Block
    at: int
    end: int
    number: int | None
    hits: tuple[Hit, ...] = ()

    @property
    def offset(self) -> int:
        """Where the line starts in its source, in bytes."""
        return self.block.offset + self.at

    @cached_property
    def _visible(self) -> Visible:
        return Visible(self.block.data[self.at : self.end])

    @property
    def text(self) -> bytes:
        """The line without escape sequences and NULs: what patterns and prefixes are matched on."""
        return self._visible.text

    def position(self, start: int) -> int:
        """Where in its source, in bytes, the character at `start` of the text stands."""
        return self.offset + self._visible.raw_position(start)

    def quote(self, start: int = 0) -> str:
        """The line as it stands in the source, cut to TEXT_LIMIT characters around `start`, without margins."""
        raw = self._visible.raw
        text = decode(raw)
        if len(text) > TEXT_LIMIT:
            before = len(decode(raw[: self._visible.raw_position(start)]))
            begin = max(0, min(before - TEXT_LEAD, len(text) - TEXT_LIMIT))
            text = text[begin : begin + TEXT_LIMIT]
        return text.strip("\0 \t")


class Scanner:
    """Finds the messages of a catalogue in blocks of lines. One scanner serves one stream at a time."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._by_text = catalogue.by_text
        self._prefilter = catalogue.prefilter()

    def scan(self, block: Block, every_line: Callable[[], bool] = lambda: False) -> Iterator[Line]:
        """The lines with messages, in order; and every line from where `every_line` says so, for as long as it does."""
        raw = block.data
        visible = Visible(raw)
        found = self._prefilter.find(visible.text)
        if not found and not every_line():
            return
        texts = ((visible.raw_position(end - 1), text) for end, text in found)
        lines = _Lines(raw)
        waiting = next(texts, None)
        at = 0
        while at < len(raw):
            if not every_line():
                if waiting is None:
                    return
                at = max(at, waiting[0])
            start, end, after = lines.around(at)
            announced: dict[int, Wording] = {}
            while waiting is not None and waiting[0] < after:
                for wording in self._by_text[waiting[1]]:
                    announced[wording.order] = wording
                waiting = next(texts, None)
            line = Line(block, start, end, block.number(start))
            if announced:
                line.hits = tuple(_hits(line.text, announced, block.partial))
            if line.hits or every_line():
                yield line
            at = after


class _Lines:
    """Bounds of the lines of a block, looked up in ascending order."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._from = 0
        # Most blocks have no line end but the newline: then bytes.find does it.
        self._plain = not any(
            byte in raw for byte in (b"\r", b"\v", b"\f", b"\x1c", b"\x1d", b"\x1e", b"\xc2", b"\xe2")
        )

    def around(self, at: int) -> tuple[int, int, int]:
        """Start and end of the line that holds the byte `at`, and where the next one starts."""
        raw = self._raw
        start = raw.rfind(b"\n", 0, at) + 1
        end = raw.find(b"\n", at)
        end, after = (len(raw), len(raw)) if end < 0 else (end, end + 1)
        if not self._plain:
            start = max(start, self._from)
            for found in LINE_END.finditer(raw, start, after):
                if found.end() > at:
                    end, after = found.span()
                    break
                start = found.end()
            self._from = after
        return start, end, after


def _hits(text: bytes, announced: Mapping[int, Wording], partial: bool) -> Iterator[Hit]:
    """The messages on a line. Where two overlap, the one that comes first in the catalogue counts.

    A number at the end of a line that has not ended may lack digits: such a message waits for the rest.
    """
    taken: list[Hit] = []
    for _, wording in sorted(announced.items()):
        at = 0
        for _ in range(MATCHES_PER_WORDING):
            found = wording.regex.search(text, at)
            if found is None:
                break
            if any(found.end() > hit.start and found.start() < hit.end for hit in taken):
                at = found.start() + 1
                continue
            at = max(found.end(), at + 1)
            if not (partial and _may_grow(wording, found, text)) and (not wording.message.alone or _alone(text, found)):
                taken.append(Hit(wording, found.start(), found.end(), _fields(wording, found)))
    return iter(sorted(taken, key=lambda hit: hit.start))


def _may_grow(wording: Wording, found: re.Match[bytes], text: bytes) -> bool:
    cut = (
        found.end(field.group) == len(text) for field in wording.fields if not (field.type.loose or field.type.closed)
    )
    return wording.message.alone or any(cut)


def _alone(text: bytes, found: re.Match[bytes]) -> bool:
    return not text[found.end() :].strip() and read_labels(text).content == found.start()


def _fields(wording: Wording, found: re.Match[bytes]) -> Mapping[str, FieldValue]:
    """The values of a match. A field that a wording has twice has its value from the place that matched."""
    fields: dict[str, FieldValue] = dict(wording.message.adds)
    for field in wording.fields:
        raw = found[field.group]
        if raw is not None:
            fields[field.name] = field.type.value(decode(raw))
    return fields
