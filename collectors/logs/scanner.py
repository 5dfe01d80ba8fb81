"""The block scanner: from blocks of whole lines to the lines that hold a message of the catalogue.

Stage one looks for the fixed texts of all messages in the whole block at once. Stage two runs the full expressions, with their
captures, on the lines where one was found, and only those of the messages that the texts announce.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from aidiag.collectors.logs.compiled import Catalogue, Wording
from aidiag.collectors.logs.lines import LINE_END, Visible, decode
from aidiag.collectors.logs.prefilter import Found
from aidiag.collectors.logs.prefix import read_prefix
from aidiag.collectors.logs.splitter import Block
from aidiag.collectors.observation import FieldValue

TEXT_LIMIT = 400
"""Evidence quotes at most this many characters of a line."""

TEXT_LEAD = 120
"""Of a longer line the quotation starts at most this far before the message."""

MATCHES_PER_WORDING = 16

_NOT_UTF8 = re.compile("[\udc80-\udcff]")
"""What surrogateescape makes of bytes that are not UTF-8."""

SEEN_LIMIT = 16_384
"""How much is remembered of messages that repeat themselves; beyond it they are told again."""


@dataclass(slots=True)
class Hit:
    """One message on a line, from `start` to `end` of its visible text."""

    wording: Wording
    start: int
    end: int
    fields: dict[str, FieldValue]

    def hides(self, start: int, end: int) -> bool:
        """Whether it overlaps a stretch, and says all that is to be said about it."""
        return not self.wording.message.beside and end > self.start and start < self.end


class Line:
    """A line with what was found on it. `at` is where it starts in its block, `number` None where that is not known.

    `text` is the line without escape sequences and NULs: what patterns and prefixes are matched on.
    """

    __slots__ = ("_visible", "at", "block", "end", "hits", "number", "text")

    def __init__(self, block: Block, at: int, end: int, number: int | None, visible: bool) -> None:
        self.block = block
        self.at = at
        self.end = end
        self.number = number
        self.hits: list[Hit] = []
        raw = block.data[at:end]
        self._visible = None if visible else Visible(raw)
        self.text = self._visible.text if self._visible else raw

    @property
    def offset(self) -> int:
        """Where the line starts in its source, in bytes."""
        return self.block.offset + self.at

    def position(self, start: int) -> int:
        """Where in its source, in bytes, the character at `start` of the text stands."""
        return self.offset + (self._visible.raw_position(start) if self._visible else start)

    def quote(self, start: int = 0) -> str:
        """The line as it stands in the source, cut to TEXT_LIMIT characters around `start`, without margins.

        Bytes that are not UTF-8 bound it, so that the text stands in the line however somebody decodes it.
        """
        raw = self._visible.raw if self._visible else self.text
        if self._visible is None and raw.isascii():  # as a rule: characters are bytes
            begin = max(0, min(start - TEXT_LEAD, len(raw) - TEXT_LIMIT))
            return raw[begin : begin + TEXT_LIMIT].decode().strip("\0 \t")
        nuls = len(raw) - len(raw.lstrip(b"\0"))
        at = max(nuls, self.position(start) - self.offset)
        before = len(raw[nuls:at].decode("utf-8", "surrogateescape"))
        text = raw[nuls:].decode("utf-8", "surrogateescape")
        if not raw.isascii() and (strange := [found.start() for found in _NOT_UTF8.finditer(text)]):
            turn = bisect_right(strange, before)
            begin = strange[turn - 1] + 1 if turn else 0
            text = text[begin : strange[turn] if turn < len(strange) else len(text)]
            before -= begin
        if len(text) > TEXT_LIMIT:
            begin = max(0, min(before - TEXT_LEAD, len(text) - TEXT_LIMIT))
            text = text[begin : begin + TEXT_LIMIT]
        return text.strip("\0 \t")


class Scanner:
    """Finds the messages of a catalogue in blocks of lines. One scanner serves one stream at a time.

    A message that repeats itself in all but one field (the channels to a peer, some dozens for each) is found once in a stream.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._by_text = catalogue.by_text
        self._repeating = catalogue.repeating
        self._prefilter = catalogue.prefilter()
        self._seen: set[tuple[bytes, ...]] = set()

    def scan(self, block: Block, every_line: Callable[[], bool] = lambda: False) -> Iterator[Line]:
        """The lines with messages, in order; and every line from where `every_line` says so, for as long as it does."""
        raw = block.data
        visible = Visible(raw)
        found = self._prefilter.find(visible.text)
        if not found and not every_line():
            return
        if not self._repeating.isdisjoint([text for _, text in found]):
            found = self._without_repeats(visible.text, found, block.partial)
        if visible.changed:
            found = [(visible.raw_position(end - 1) + 1, text) for end, text in found]
        lines = _Lines(block)
        at = turn = 0
        while at < len(raw):
            if not every_line():
                if turn == len(found):
                    return
                at = max(at, found[turn][0] - 1)
            start, end, after = lines.around(at)
            texts = []
            while turn < len(found) and found[turn][0] <= after:
                texts.append(found[turn][1])
                turn += 1
            line = Line(block, start, end, block.number(start), not visible.changed)
            if texts:
                line.hits = _hits(line.text, self._announced(texts), block.partial)
            if line.hits or every_line():
                yield line
            at = after

    def _announced(self, texts: list[int]) -> Iterable[Wording]:
        """The wordings that the texts on a line announce, by their precedence."""
        if len(texts) == 1:
            return self._by_text[texts[0]]
        return sorted({one for text in texts for one in self._by_text[text]}, key=lambda one: one.order)

    def _without_repeats(self, text: bytes, found: list[Found], peek: bool) -> list[Found]:
        """For the texts of repeating messages, only where one stands that says something new of its process."""
        kept = [one for one in found if one[1] not in self._repeating]
        for index in {one[1] for one in found} & self._repeating:
            for wording in self._by_text[index]:
                (varies,) = (one.group for one in wording.fields if one.name == wording.message.repeats)
                before = speaker = b""
                for match in wording.regex.finditer(text):
                    start, end = match.span()
                    skip, resume = match.span(varies)
                    margin = text[text.rfind(b"\n", 0, start) + 1 : start]
                    if margin != before:  # a process prints many of them in a row
                        before, speaker = margin, _speaker(margin)
                    key = (speaker, text[start:skip], text[resume:end])
                    if key not in self._seen:
                        kept.append((end, index))
                        if not peek:
                            self._seen.add(key)
        if len(self._seen) > SEEN_LIMIT:
            self._seen.clear()
        return sorted(kept)


def _speaker(before: bytes) -> bytes:
    """The process in NCCL's prefix of a message: what stands before it on its line, without a time or label."""
    return before if before.count(b" ") <= 2 else b" ".join(before.rsplit(b" ", 3)[1:])


class _Lines:
    """Bounds of the lines of a block, looked up in ascending order."""

    def __init__(self, block: Block) -> None:
        self._raw = block.data
        self._plain = block.plain
        self._from = 0

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


def _hits(text: bytes, announced: Iterable[Wording], partial: bool) -> list[Hit]:
    """The messages on a line. Where two overlap, the one that comes first in the catalogue counts.

    A number at the end of a line that has not ended may lack digits: such a message waits for the rest.
    """
    taken: list[Hit] = []
    for wording in announced:
        # Another wording of the message that was just found can only say something behind it.
        at = taken[-1].end if taken and taken[-1].wording.message is wording.message else 0
        for _ in range(MATCHES_PER_WORDING):
            found = wording.regex.search(text, at)
            if found is None:
                break
            start, end = found.span()
            over = [] if wording.message.beside else [hit for hit in taken if hit.hides(start, end)]
            if over:
                at = max([start + 1, *(hit.end for hit in over if hit.start <= start)])
                continue
            at = end
            if not (partial and _may_grow(wording, found, text)) and (not wording.message.alone or _alone(text, found)):
                taken.append(Hit(wording, start, end, _fields(wording, found)))
    return sorted(taken, key=lambda hit: hit.start) if len(taken) > 1 else taken


def _may_grow(wording: Wording, found: re.Match[bytes], text: bytes) -> bool:
    cut = (
        found.end(field.group) == len(text) for field in wording.fields if not (field.type.loose or field.type.closed)
    )
    return wording.message.alone or any(cut)


def _alone(text: bytes, found: re.Match[bytes]) -> bool:
    return not text[found.end() :].strip() and read_prefix(text, found.start()).whole


def _fields(wording: Wording, found: re.Match[bytes]) -> dict[str, FieldValue]:
    """The values of a match. A field that a wording has twice has its value from the place that matched."""
    fields: dict[str, FieldValue] = dict(wording.message.adds)
    for field in wording.fields:
        raw = found[field.group]
        if raw is not None:
            fields[field.name] = field.type.value(decode(raw))
    return fields
