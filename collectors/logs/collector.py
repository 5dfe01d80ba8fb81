"""The logs of a job as they are written: the capture of its output, NCCL's own files, and files that the user names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from aidiag.collectors.collector import Context
from aidiag.collectors.logs.attribution import Owner
from aidiag.collectors.logs.compiled import Catalogue, load_catalogue
from aidiag.collectors.logs.files import owner_by_name
from aidiag.collectors.logs.following import Followed
from aidiag.collectors.logs.kinds import EVENTS
from aidiag.collectors.logs.processes import Processes
from aidiag.collectors.logs.splitter import Splitter
from aidiag.collectors.logs.stream import LogStream
from aidiag.collectors.logs.tail import TURN_BYTES, Mark
from aidiag.collectors.observation import Absent, Observation, Sample, labels
from aidiag.collectors.run_files import name_of, read_run
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
FILES_LIMIT = 512
TURN_TOTAL_BYTES = 32 << 20
TURN_LEAST_BYTES = 256 << 10


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
            self._followed[path] = Followed(path, kind, marks, self._stream)

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
        for kind in SOURCES:
            followed = [one for one in self._followed.values() if one.kind == kind]
            for signal in SIGNALS if followed else ():
                value = float(sum(one.totals[signal.name] for one in followed))
                yield Sample(signal.name, subject, value, now, labels(source=kind))

    # what the followed files need

    @property
    def catalogue(self) -> Catalogue:
        """The catalogue, loaded when the first file is there."""
        if self._catalogue is None:
            self._catalogue = load_catalogue()
        return self._catalogue

    def _stream(self, path: Path, kind: str, splitter: Splitter) -> LogStream:
        return LogStream(
            self.catalogue,
            self._source(path),
            job=self._context.job or "",
            owner=self._owner(path, kind),
            processes=self._processes,
            reference=self._context.clock.unix(),
            splitter=splitter,
        )

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
        run = read_run(path.with_name(name_of(key[1])))
        return run.rank if run else None
