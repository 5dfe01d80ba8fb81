"""The logs of a job as they are written: the capture of its output, NCCL's own files, and files that the user names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import ClassVar

from aidiag.collectors.collector import Collector, Context
from aidiag.collectors.logs.attribution import Owner
from aidiag.collectors.logs.comparing import COMPARED
from aidiag.collectors.logs.compiled import Catalogue, load_catalogue
from aidiag.collectors.logs.files import owner_by_name
from aidiag.collectors.logs.following import Followed
from aidiag.collectors.logs.kinds import EVENTS
from aidiag.collectors.logs.processes import Processes
from aidiag.collectors.logs.splitter import Splitter
from aidiag.collectors.logs.stream import LogStream
from aidiag.collectors.logs.tail import TURN_BYTES
from aidiag.collectors.observation import Absent, Observation, Sample, labels
from aidiag.collectors.run_files import RunFile, name_of, read_run, read_runs
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
LOOK_BACK_SECONDS = 60.0
"""Messages without a time are told where they are known to be younger than so long before the collector's start."""

RECORDS_AGE_SECONDS = 5.0
"""How old the list of trainers may be: it is read for others each second."""

FILES_LIMIT = 512
TURN_TOTAL_BYTES = 32 << 20
TURN_LEAST_BYTES = 256 << 10


class LogsCollector(Collector):
    """Follows logs and turns their messages into events."""

    name: ClassVar[str] = "logs"
    interval_seconds: ClassVar[float] = 1.0
    signals: ClassVar[tuple[Signal, ...]] = SIGNALS
    events: ClassVar[tuple[EventKind, ...]] = (*EVENTS, *COMPARED)

    def __init__(self, context: Context, catalogue: Catalogue | None = None) -> None:
        self._context = context
        self._catalogue = catalogue
        self._followed: dict[Path, Followed] = {}
        self._processes = Processes()
        self._ended = {kind: Counter[str]() for kind in SOURCES}
        self._rescan_at = float("-inf")
        self._oldest = context.clock.monotonic() - LOOK_BACK_SECONDS
        self._left_out = 0

    def collect(self) -> Iterable[Observation]:
        """What the logs say that was not there at the last call."""
        now = self._context.clock.monotonic()
        unix_offset = self._context.clock.unix() - now
        if now - self._rescan_at >= RESCAN_SECONDS:
            self._find(unix_offset)
            self._rescan_at = now
        self._know_trainers()
        budget = max(TURN_LEAST_BYTES, min(TURN_BYTES, TURN_TOTAL_BYTES // max(1, len(self._followed))))
        for followed in list(self._followed.values()):
            yield from followed.poll(now, budget, unix_offset)
        yield from self._absent()
        yield from self._samples(now)

    def watched(self) -> Collection[str]:
        """None: what happened need not stand in the logs that there are."""
        return ()

    def close(self) -> None:
        """Close all files."""
        for followed in self._followed.values():
            followed.tail.close()

    def _find(self, unix_offset: float) -> None:
        """Start following files that are new, and let go of those that are gone and read to their end."""
        found: dict[Path, str] = {}
        for path in self._context.log_paths:
            if re.search(r"[*?\[]", path.name) and not path.exists():
                found |= {match: "file" for match in sorted(path.parent.glob(path.name))}
            else:
                found[path] = "file"
        if self._context.host_folder:
            for pattern, kind in FOLDER_PATTERNS:
                found |= {match: kind for match in sorted(self._context.host_folder.glob(pattern))}
        for path in [path for path, followed in self._followed.items() if path not in found and followed.tail.over]:
            gone = self._followed.pop(path)
            self._ended[gone.kind] += gone.totals
        self._left_out = 0
        for path, kind in found.items():
            if path in self._followed:
                continue
            if len(self._followed) >= FILES_LIMIT:
                self._left_out += 1
                continue
            since = max(self._rescan_at, self._began(path, kind) - unix_offset)
            self._followed[path] = Followed(path, kind, self._stream, since=since, oldest=self._oldest)

    def _began(self, path: Path, kind: str) -> float:
        """The Unix time at which the first byte of a log can have been written, -inf where nobody knows: of what lies in
        the host folder when its run started (that set aside what an earlier job had left there).
        """
        folder = self._context.host_folder
        if kind == "file" or folder is None:
            return float("-inf")
        run = self._run_of(path)
        return min((one.started for one in ([run] if run else read_runs(folder))), default=float("-inf"))

    def _know_trainers(self) -> None:
        """Which process is which rank, as the trainers themselves say."""
        found = self._context.records.find(RECORDS_AGE_SECONDS) if self._context.records and self._followed else ()
        for one in found:
            self._processes.label(self._context.node.name, one.record.identity.pid, one.record.identity.rank)

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
            for signal in SIGNALS if followed or self._ended[kind] else ():
                value = float(self._ended[kind][signal.name] + sum(one.totals[signal.name] for one in followed))
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
        run = self._run_of(path)
        return Owner(host=self._context.node.name, rank=run.rank if run else None)

    @staticmethod
    def _run_of(path: Path) -> RunFile | None:
        """The run whose command printed a capture."""
        key = re.fullmatch(r"(?:stdout|stderr)-(\d+(?:-\d+)?)(?:\.\d+)?\.log", path.name)
        return read_run(path.with_name(name_of(key[1]))) if key else None
