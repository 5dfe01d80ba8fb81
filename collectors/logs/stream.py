"""One log as a stream: bytes in, events out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from aidiag.collectors import subject
from aidiag.collectors.kmsg_lines import KernelLines
from aidiag.collectors.logs.attribution import NOBODY, Attribution, Origin, Owner
from aidiag.collectors.logs.blocks import BLOCKS, Outcome, TextBlock
from aidiag.collectors.logs.catalogue import Message
from aidiag.collectors.logs.compiled import Catalogue
from aidiag.collectors.logs.fieldtypes import size_bytes
from aidiag.collectors.logs.kinds import LAUNCHER_KINDS, OWN_FIELDS, SCOPES
from aidiag.collectors.logs.lines import decode
from aidiag.collectors.logs.prefix import Prefix
from aidiag.collectors.logs.processes import Processes
from aidiag.collectors.logs.quoted import is_quoted
from aidiag.collectors.logs.scanner import Hit, Line, Scanner
from aidiag.collectors.logs.splitter import Block, Splitter
from aidiag.collectors.logs.stamps import Stamp
from aidiag.collectors.observation import Event, FieldValue, Place
from aidiag.collectors.subject import Subject

BLOCK_LINES = 2_000
"""A block of several lines that has not ended after so many lines of the stream never will."""

BLOCKS_OPEN = 64

READINGS_ALL = 64
"""So many readings of one name are all told; of the next as many every second, of twice as many every fourth, and so on."""

_ANOTHER_LABEL = re.compile(
    rb"\[[a-zA-Z]{0,10} ?\d{1,7}(?:,\d{1,7})?\]|[Rr]ank ?\d|NCCL (?:INFO|WARN)|<std(?:out|err)>"
)
"""What shows that a second process wrote into a line."""

_OTHER_PROCESS = re.compile(r"Process (\d{1,10}) has (\d{1,15}(?:\.\d{1,6})? ?[A-Za-z]{1,5}) memory in use")


@dataclass(slots=True, eq=False)
class _Open:
    """A block that is being read: whose it is, and how many lines went by since it began.

    A logger puts its label on the first line of what it prints only; `adopted` is True where the lines that follow have less.
    """

    message: Message
    block: TextBlock
    labels: tuple[object, ...]
    origin: Origin
    lines: int = 0
    adopted: bool = False

    def goes_on_in(self, labels: tuple[object, ...], content: str) -> bool:
        """Whether a line belongs to it, by its labels; of the line right after the first one some may be missing."""
        if self.labels == labels or (self.block.takes_others and self.labels == Prefix().identity):
            return True
        self.adopted = self.lines == 1 and content.startswith("  ") and _fewer(labels, self.labels)
        if self.adopted:
            self.labels = labels
        return self.adopted


class LogStream:
    """Turns the bytes of one log into events.

    `source` is what evidence calls the log. `job` completes the subjects. Line numbers hold under
    `read_text().splitlines()`; they begin with that of `splitter`, and where that is None places have no line.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        source: str,
        *,
        job: str = "",
        owner: Owner = NOBODY,
        processes: Processes | None = None,
        reference: float = 0.0,
        splitter: Splitter | None = None,
    ) -> None:
        self.source = source
        self.splitter = splitter or Splitter()
        self.reported: tuple[str, ...] = ()
        """The messages already told of the line that has not ended yet."""
        self._job = job
        self._scanner = Scanner(catalogue)
        self._attribution = Attribution(processes or Processes(), owner, reference)
        self._blocks: list[_Open] = []
        self._readings: dict[FieldValue, int] = {}
        self._kernel = KernelLines(told_by="log")
        self._first_on_line: tuple[Line, int, Origin] | None = None

    def feed(self, data: bytes, time: float | None = None) -> Iterator[Event]:
        """The events of the lines that are complete with `data`. `time` is when it was read."""
        for block in self.splitter.feed(data):
            yield from self._scan(block, time)

    def flush(self, time: float | None = None) -> list[Event]:
        """The events of a last line that has not ended yet. When it ends they are not told again."""
        block = self.splitter.partial()
        events: list[Event] = []
        for line in self._scanner.scan(block) if block else ():
            hits = [hit for hit in _said(line) if not (hit.wording.message.opens or hit.wording.message.reads)]
            fresh = self._fresh(hits)
            self.reported = tuple(_mark(hit) for hit in hits)
            events += [event for hit in fresh for event in self._events_of(line, hit, time)]
        return events

    def finish(self, time: float | None = None) -> Iterator[Event]:
        """The events of what is left when the log has ended."""
        for block in self.splitter.finish():
            yield from self._scan(block, time)
        for opened in self._blocks:
            yield from self._outcomes(opened, opened.block.close(), time)
        self._blocks.clear()

    def _scan(self, block: Block, time: float | None) -> Iterator[Event]:
        for line in self._scanner.scan(block, lambda: bool(self._blocks)):
            hits = _said(line)
            if self.reported and line.at == 0:
                hits = self._fresh(hits)
            if self._blocks or any(hit.wording.message.opens for hit in hits):
                before = list(self._blocks)
                opening = [hit for hit in hits if hit.wording.message.opens]
                for hit in opening:
                    if not BLOCKS[hit.wording.message.opens].part_of:
                        yield from self._open(line, hit, time)
                for opened in before:
                    yield from self._take(opened, line, time)
                for hit in opening:  # what may be a part of a block opens one of its own where none took it
                    if BLOCKS[hit.wording.message.opens].part_of:
                        yield from self._open(line, hit, time)
                whole = any(one.message.opens == "traceback" for one in before)
                hits = [
                    hit
                    for hit in hits
                    if not hit.wording.message.opens and not (whole and hit.wording.message.kind == "error_printed")
                ]
            for hit in hits:
                yield from self._events_of(line, hit, time)
        self.reported = ()

    def _fresh(self, hits: Iterable[Hit]) -> list[Hit]:
        told = list(self.reported)
        fresh = []
        for hit in hits:
            if _mark(hit) in told:
                told.remove(_mark(hit))
            else:
                fresh.append(hit)
        return fresh

    # events

    def _events_of(self, line: Line, hit: Hit, time: float | None) -> Iterator[Event]:
        message, fields = hit.wording.message, hit.fields
        if message.kind == "memory_reading" and self._is_one_of_many(fields):
            return
        if message.reads == "kernel":
            fact = self._kernel.fact(decode(line.text[hit.start :]).rstrip())
            if fact is None or fact.kind != message.kind:
                return
            fields = dict(fact.fields)
        origin = self._origin(line, hit.start, message)
        if message.kind in LAUNCHER_KINDS:
            self._attribution.launcher_spoke()
        if message.kind == "cuda_out_of_memory":
            _add_other_processes(fields, decode(line.text[hit.start :]))
        if "comm_ranks" in fields:
            origin = self._attribution.learn(origin, fields)
        elif message.kind in PLACING_KINDS:
            self._attribution.placed(fields)
        yield self._event(message, origin, fields, line, hit.start, time)

    def _event(
        self,
        message: Message,
        origin: Origin,
        fields: dict[str, FieldValue],
        line: Line,
        start: int,
        time: float | None,
    ) -> Event:
        kind = message.kind
        rank = _rank(kind, origin, fields)
        if rank is None and kind in LAUNCHER_KINDS:
            rank = self._attribution.rank_of_process(fields.get("host"), fields.get("pid"))
        fields["message"], fields["severity"] = message.id, message.severity
        if message.phase:
            fields.setdefault("phase", message.phase)
        own = OWN_FIELDS[kind]
        if origin.host and "host" not in own:
            fields["host"] = origin.host
        if origin.pid is not None and "pid" not in own:
            fields["pid"] = origin.pid
        if origin.local_rank is not None and "local_rank" not in own:
            fields.setdefault("local_rank", origin.local_rank)
        if origin.device is not None:
            fields["cuda_device"] = origin.device
        place = Place(self.source, line.number, line.quote(start))
        stated = str(fields.get("host", ""))
        here = "" if stated in LOOPBACK_NAMES else stated
        whose = _subject(kind, rank, here, self._job, str(fields.get("pci_bus_id", "")))
        return Event(kind, whose, time, fields, origin.unix, place, line.position(start))

    def _origin(self, line: Line, start: int, message: Message) -> Origin:
        """Who printed a message. What tells of progress behind another message, whose label is whole, is of the same process;
        an error may have been written into the line by another one.
        """
        origin = self._attribution.origin(line, start)
        first = self._first_on_line
        if origin.rank is not None:
            self._first_on_line = (line, start, origin)
        elif (
            message.severity == "info"
            and first
            and first[0] is line
            and not _ANOTHER_LABEL.search(line.text, first[1], start)
        ):
            return first[2]
        return origin

    def _is_one_of_many(self, fields: Mapping[str, FieldValue]) -> bool:
        """Whether a reading that comes with each step may be left out: the more came, the fewer are told."""
        name = fields.get("of", "")
        number = self._readings[name] = self._readings.get(name, 0) + 1
        return number > READINGS_ALL and number % (1 << (number.bit_length() - READINGS_ALL.bit_length())) != 0

    # blocks of several lines

    def _open(self, line: Line, hit: Hit, time: float | None) -> Iterator[Event]:
        message = hit.wording.message
        labels, start = self._attribution.labels(line)
        block_type = BLOCKS[message.opens]
        holding = (message.opens, *block_type.part_of)
        same = [one for one in self._blocks if one.message.opens in holding and one.labels == labels]
        if (same and not block_type.reopens) or len(self._blocks) - len(same) >= BLOCKS_OPEN:
            return
        for one in same:
            self._blocks.remove(one)
            yield from self._outcomes(one, one.block.close(), time)
        # What follows without a label may be of either now.
        self._blocks = [one for one in self._blocks if not (one.adopted and _fewer(one.labels, labels))]
        block = block_type(hit.fields, bool(same))
        block.take(line, start, decode(line.text[start:]).rstrip())
        self._blocks.append(_Open(message, block, labels, self._attribution.origin(line, hit.start)))

    def _take(self, opened: _Open, line: Line, time: float | None) -> Iterator[Event]:
        if opened not in self._blocks:
            return
        labels, start = self._attribution.labels(line)
        opened.lines += 1
        content = decode(line.text[start:]).rstrip()
        if opened.goes_on_in(labels, content):
            yield from self._outcomes(opened, opened.block.take(line, start, content), time)
        if opened.block.over or opened.lines > BLOCK_LINES:
            self._blocks.remove(opened)

    def _outcomes(self, opened: _Open, outcomes: list[Outcome], time: float | None) -> Iterator[Event]:
        for outcome in outcomes:
            fields = dict(outcome.fields)
            event = self._event(opened.message, opened.origin, fields, outcome.line, outcome.start, time)
            if outcome.time:
                stated = Stamp("iso", outcome.time).unix(self._attribution.reference)
                event = Event(event.kind, event.subject, event.time, event.fields, stated, event.place, event.order)
            yield event


PLACING_KINDS = frozenset({"gpu_place", "rank_announced"})
"""Events in which a program says which process on which host is which rank."""

LOOPBACK_NAMES = frozenset({"localhost", "localhost.localdomain", "127.0.0.1", "::1"})
"""What torchrun calls a host whose name leads to loopback: it tells nobody apart."""


@lru_cache(maxsize=4096)
def _subject(kind: str, rank: int | None, host: str, job: str, pci_bus_id: str) -> Subject | None:
    match SCOPES[kind]:
        case "rank":
            return None if rank is None else subject.rank(rank, host=host, job=job)
        case "host":
            return subject.host(host) if host else None
        case "gpu":
            return Subject("gpu", pci_bus_id, host=host) if host else None
        case _:
            return subject.job(job) if job else None


def _said(line: Line) -> list[Hit]:
    """What a program said on a line, without what it quotes of a user or a model."""
    return [hit for hit in line.hits if not is_quoted(line.text, hit.start)]


def _fewer(labels: tuple[object, ...], than: tuple[object, ...]) -> bool:
    """Whether labels say nothing else than others, and less."""
    return labels != than and all(one in (None, "", other) for one, other in zip(labels, than, strict=True))


def _mark(hit: Hit) -> str:
    return f"{hit.wording.message.id}@{hit.start}"


def _rank(kind: str, origin: Origin, fields: Mapping[str, FieldValue]) -> int | None:
    """The rank of the job that a message is about: what it says itself, then who printed it, then its rank in the
    default process group, which is that of the job.
    """
    rank = fields.get("rank")
    if isinstance(rank, int):
        return rank
    if kind in LAUNCHER_KINDS or origin.rank is not None:
        return None if kind in LAUNCHER_KINDS else origin.rank
    group, group_rank = str(fields.get("group", "")), fields.get("group_rank")
    default = not group or "default_pg" in group or re.fullmatch(r"(?:ID )?0(?: .*)?", group)
    return group_rank if isinstance(group_rank, int) and default else None


def _add_other_processes(fields: dict[str, FieldValue], text: str) -> None:
    """The processes beside this one that an out-of-memory message names, and what they hold together."""
    others = _OTHER_PROCESS.findall(text)
    if others:
        fields["other_pid"] = int(others[0][0])
        fields["other_bytes"] = sum(size_bytes(size) for _, size in others)
