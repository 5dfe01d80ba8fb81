"""The logs of a job as they are written: the capture of its output, NCCL's own files, and files that the user names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec

from aidiag.collectors.collector import Context
from aidiag.collectors.logs.attribution import Owner, Processes
from aidiag.collectors.logs.compiled import Catalogue, load_catalogue
from aidiag.collectors.logs.files import open_regular, owner_by_name
from aidiag.collectors.logs.kinds import EVENTS
from aidiag.collectors.logs.lines import Splitter, count_line_ends
from aidiag.collectors.logs.stream import LogStream
from aidiag.collectors.logs.tail import TURN_BYTES, Chunk, Mark, OpenFile, Tail
from aidiag.collectors.observation import Absent, Event, Observation, Sample, labels
from aidiag.collectors.signal import EventKind, Signal
from aidiag.collectors.subject import host

SIGNALS: tuple[Signal, ...] = (
    Signal("log_lines_total", "counter", "count", "host", "Lines read from logs", labels=("source",)),
    Signal("log_bytes_total", "counter", "bytes", "host", "Bytes read from logs", labels=("source",)),
    Signal(
        "log_dropped_bytes_total",
        "counter",
        "bytes",
        "host",
        "Bytes of logs that were not looked at: over the length of a line, or skipped to keep up",
        labels=("source",),
    ),
    Signal(
        "log_dropped_events_total",
        "counter",
        "count",
        "host",
        "Log messages not handed on, since the same message came too often in one turn",
        labels=("source",),
    ),
)

SOURCES = ("capture", "nccl", "file")

FOLDER_PATTERNS = (("stdout-*.log", "capture"), ("stderr-*.log", "capture"), ("nccl.*.log", "nccl"))
RESCAN_SECONDS = 5.0
PARTIAL_SECONDS = 5.0
FILES_LIMIT = 512
TURN_TOTAL_BYTES = 32 << 20
TURN_LEAST_BYTES = 256 << 10
EVENTS_PER_MESSAGE = 500
RUN_FILE_LIMIT_BYTES = 1 << 20


class LogsCollector:
    """Follows logs and turns their messages into events.

    `resume` takes the marks that an earlier collector gave with `marks`, to go on where that one stopped.
    """

    name: ClassVar[str] = "logs"
    interval_seconds: ClassVar[float] = 1.0
    signals: ClassVar[tuple[Signal, ...]] = SIGNALS
    events: ClassVar[tuple[EventKind, ...]] = EVENTS

    def __init__(self, context: Context, catalogue: Catalogue | None = None) -> None:
        self._context = context
        self._catalogue = catalogue
        self._followed: dict[Path, Followed] = {}
        self._marks: dict[str, list[Mark]] = {}
        self._processes = Processes()
        self._totals: Counter[tuple[str, str]] = Counter()
        self._rescan_at = float("-inf")
        self._left_out = 0

    def resume(self, marks: Sequence[Mark]) -> None:
        """Go on at these marks. To be called before the first `collect`."""
        for mark in marks:
            self._marks.setdefault(mark.path, []).append(mark)

    def marks(self) -> list[Mark]:
        """How far each file has been read."""
        unused = [mark for marks in self._marks.values() for mark in marks]
        return [mark for followed in self._followed.values() for mark in followed.marks()] + unused

    def collect(self) -> Iterable[Observation]:
        """What the logs say that was not there at the last call."""
        now = self._context.clock.monotonic()
        if now - self._rescan_at >= RESCAN_SECONDS:
            self._rescan_at = now
            self._find()
        budget = max(TURN_LEAST_BYTES, min(TURN_BYTES, TURN_TOTAL_BYTES // max(1, len(self._followed))))
        for followed in list(self._followed.values()):
            yield from followed.poll(now, budget)
        yield from self._absent()
        yield from self._samples(now)

    def close(self) -> None:
        """Close all files."""
        for followed in self._followed.values():
            followed.tail.close()

    def _find(self) -> None:
        """Start following files that are new."""
        found: dict[Path, str] = {}
        for path in self._context.log_paths:
            if re.search(r"[*?\[]", path.name) and not path.exists():
                found |= {match: "file" for match in sorted(path.parent.glob(path.name))}
            else:
                found[path] = "file"
        if self._context.host_folder:
            for pattern, kind in FOLDER_PATTERNS:
                found |= {match: kind for match in sorted(self._context.host_folder.glob(pattern))}
        self._left_out = 0
        for path, kind in found.items():
            if path in self._followed:
                continue
            if len(self._followed) >= FILES_LIMIT:
                self._left_out += 1
                continue
            marks = self._marks.pop(str(path), [])
            self._followed[path] = Followed(self, path, kind, marks)

    def _absent(self) -> Iterator[Absent]:
        subject = host(self._context.node.name)
        for path, followed in self._followed.items():
            if followed.tail.refused and followed.kind == "file":
                yield Absent(
                    "log_bytes_total", subject, f"{path}: {followed.tail.refused}", "", labels(source=followed.kind)
                )
        if self._left_out:
            reason = f"{self._left_out} logs are not followed, since {FILES_LIMIT} are already"
            yield Absent("log_bytes_total", subject, reason, "", labels(source="file"))

    def _samples(self, now: float) -> Iterator[Sample]:
        subject = host(self._context.node.name)
        kinds = {followed.kind for followed in self._followed.values()}
        for signal in SIGNALS:
            for kind in SOURCES:
                if kind in kinds:
                    value = float(self._totals[signal.name, kind])
                    yield Sample(signal.name, subject, value, now, labels(source=kind))

    # what the followed files need

    @property
    def catalogue(self) -> Catalogue:
        """The catalogue, loaded when the first file is there."""
        if self._catalogue is None:
            self._catalogue = load_catalogue()
        return self._catalogue

    def stream(self, path: Path, kind: str, mark: Mark | None, skipped: bool) -> LogStream:
        """A stream for a file that is read from its start, from a mark, or from somewhere within a line."""
        splitter = Splitter(line=None if skipped else 1, inside_line=skipped)
        if mark is not None and not skipped:
            splitter = Splitter(mark.offset, mark.line)
        made = LogStream(
            self.catalogue,
            self._source(path),
            job=self._context.job or "",
            owner=self._owner(path, kind),
            processes=self._processes,
            reference=self._context.clock.unix(),
            splitter=splitter,
        )
        made.reported = mark.reported if mark and not skipped else ()
        return made

    def count(self, name: str, kind: str, amount: int) -> None:
        """Add to a total."""
        self._totals[name, kind] += amount

    def _source(self, path: Path) -> str:
        for folder in (self._context.job_folder, self._context.host_folder):
            if folder and path.is_relative_to(folder):
                return str(path.relative_to(folder))
        return str(path)

    def _owner(self, path: Path, kind: str) -> Owner:
        named = owner_by_name(path)
        if kind == "file":
            return named
        if kind == "nccl":
            return Owner(host=self._context.node.name, pid=named.pid)
        return Owner(host=self._context.node.name, rank=self._rank_of_run(path))

    def _rank_of_run(self, path: Path) -> int | None:
        """The rank that a capture belongs to, from the file of its run, where that was no launcher."""
        key = re.fullmatch(r"(?:stdout|stderr)-(\d+(?:-\d+)?)(?:\.\d+)?\.log", path.name)
        if not key:
            return None
        try:
            with open(open_regular(path.with_name(f"run-{key[1]}.json")), "rb") as file:
                return msgspec.json.decode(file.read(RUN_FILE_LIMIT_BYTES), type=_Run).rank
        except (OSError, msgspec.MsgspecError):
            return None


class _Run(msgspec.Struct):
    rank: int | None = None


class Followed:
    """One path that is followed, and a stream for each file that has or had this name."""

    def __init__(self, collector: LogsCollector, path: Path, kind: str, marks: Sequence[Mark]) -> None:
        self.tail = Tail(path, marks, self._mark)
        self.kind = kind
        self._collector = collector
        self._streams: dict[OpenFile, LogStream] = {}
        self._grew: dict[OpenFile, float] = {}
        self._told: Counter[str] = Counter()

    def poll(self, now: float, budget: int) -> Iterator[Event]:
        """The events of what was added, and of a last line that has stood unfinished for PARTIAL_SECONDS."""
        self._told.clear()
        for file, chunk in self.tail.poll(now, budget):
            stream = self._stream(file, chunk)
            if chunk.hole_bytes:
                stream.splitter.skip(chunk.hole_bytes)
            before = stream.splitter.dropped_bytes
            yield from self._bounded(stream.feed(chunk.data, now))
            self._grew[file] = now
            self._collector.count("log_bytes_total", self.kind, len(chunk.data))
            self._collector.count("log_lines_total", self.kind, count_line_ends(chunk.data))
            dropped = chunk.skipped_bytes + stream.splitter.dropped_bytes - before
            self._collector.count("log_dropped_bytes_total", self.kind, dropped)
        open_files = self.tail.files
        for file in list(self._streams):
            if now - self._grew.get(file, now) >= PARTIAL_SECONDS or file not in open_files:
                yield from self._bounded(self._streams[file].flush(now))
                self._grew.pop(file, None)
            if file not in open_files:
                del self._streams[file]

    def marks(self) -> list[Mark]:
        """Where reading each file may go on."""
        return [self._mark(file) for file in self.tail.files] + self.tail.waiting

    def _mark(self, file: OpenFile) -> Mark:
        stream = self._streams.get(file)
        if stream is None and file.mark is not None:
            return file.mark
        offset, line = stream.splitter.position if stream else (0, 1)
        return Mark(
            path=str(self.tail.path),
            device=file.key[0],
            inode=file.key[1],
            fingerprint=file.fingerprint,
            offset=offset,
            line=line,
            reported=stream.reported if stream else (),
        )

    def _stream(self, file: OpenFile, chunk: Chunk) -> LogStream:
        if file not in self._streams or chunk.restarted or chunk.skipped_bytes:
            mark, file.mark = file.mark, None
            skipped = bool(chunk.skipped_bytes)
            stream = self._collector.stream(file.path, self.kind, None if chunk.restarted else mark, skipped)
            if skipped:
                stream.splitter.skip(chunk.offset)
            self._streams[file] = stream
        return self._streams[file]

    def _bounded(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            message = str(event.fields.get("message", ""))
            self._told[message] += 1
            if self._told[message] <= EVENTS_PER_MESSAGE:
                yield event
            else:
                self._collector.count("log_dropped_events_total", self.kind, 1)
