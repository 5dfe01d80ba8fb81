"""Judging files after the fact: logs and host transcripts, from a folder or one by one."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from aidiag import __version__
from aidiag.collectors.logs import read_log
from aidiag.collectors.logs.attribution import Owner
from aidiag.collectors.logs.processes import Processes
from aidiag.collectors.logs.roster import Roster
from aidiag.collectors.observation import Event
from aidiag.collectors.signal import Registry
from aidiag.diagnose.report.cut import within
from aidiag.diagnose.report.left_out import left_out, told
from aidiag.diagnose.report.model import JobFacts, Report, Unknown
from aidiag.diagnose.report.phases import Phases
from aidiag.diagnose.report.questions import questions
from aidiag.rules.causes import arrange, links_of
from aidiag.rules.engine import Tracker, judge
from aidiag.rules.model import Rule
from aidiag.rules.window import Window

FILES_CAP = 10_000
DEPTH_CAP = 4
LEFT_OUT = (".json", ".ndjson", ".record", ".pickle", ".lock", ".pt", ".png")
"""Endings of files in an incident folder that are not text logs."""
COMPRESSED = {".gz": "gunzip", ".xz": "unxz", ".zst": "unzstd", ".bz2": "bunzip2"}
FINDINGS_CAP = 500


class PathError(Exception):
    """A path that was given cannot be diagnosed; the text says which, why, and what to give instead."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file to read, the name under which evidence speaks of it, and whose it is where more than its name tells."""

    path: Path
    name: str
    owner: Owner | None = None


def files_in(folder: Path) -> list[LogFile]:
    """The text files of an incident folder, at most DEPTH_CAP levels deep, links left out."""
    found: list[LogFile] = []
    for root, folders, names in os.walk(folder):
        depth = len(Path(root).relative_to(folder).parts)
        folders[:] = sorted(name for name in folders if not name.startswith(".")) if depth < DEPTH_CAP else []
        for name in sorted(names):
            path = Path(root) / name
            if name.startswith(".") or name.endswith(LEFT_OUT) or not _is_regular(path):
                continue
            found.append(LogFile(path, shown(path.relative_to(folder))))
    return found[:FILES_CAP]


def shown(path: Path | str) -> str:
    """A path as reports write it: bytes that are not UTF-8 are escaped."""
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def diagnose_logs(
    files: Iterable[LogFile],
    *,
    rules: Sequence[Rule],
    registry: Registry,
    language: str,
    stream: BinaryIO | None = None,
    job: str = "",
) -> Report:
    """The report on log files, and on `stream` where one is given (named `-`). `job` is the job that they are of.

    A file that cannot be read is told among what could not be seen; the others are judged.
    """
    window = Window(registry, event_horizon_seconds=None, unix_offset=0.0)
    gaps: list[Unknown] = []
    latest = 0.0
    phases = Phases()
    for event in phases.follow(_with_roster(_events(files, gaps, stream, job))):
        window.add(event)
        latest = max(latest, window.time_of(event) or 0.0)
    tracker = Tracker(unix_offset=0.0, language=language, job=job)
    findings = tracker.update(judge(rules, window, latest), latest, final=True)
    links = links_of(rules)
    roots, consequences = within(FINDINGS_CAP, *arrange(findings, links))
    gaps += told(left_out(window))
    if cut := len(findings) - len(roots) - len(consequences):
        gaps.append(Unknown("findings", f"{cut} further ones are left out", "diagnose fewer logs"))
    gaps += questions(roots, links, language)
    return Report(
        version=__version__,
        job=JobFacts(world_size=phases.world_size),
        findings=tuple(roots),
        consequences=tuple(consequences),
        unknown=tuple(gaps),
        ranks=phases.rows(),
    )


def _with_roster(events: Iterable[Event]) -> Iterator[Event]:
    """The events, and what they say only together."""
    roster = Roster()
    for event in events:
        yield from roster.see(event)
    yield from roster.close()


def _events(files: Iterable[LogFile], gaps: list[Unknown], stream: BinaryIO | None, job: str) -> Iterator[Event]:
    processes = Processes()
    if stream is not None:
        yield from read_log(stream, source="-", job=job, processes=processes)
    for file in files:
        if file.path.suffix in COMPRESSED:
            gaps.append(Unknown(file.name, "is compressed", f"{COMPRESSED[file.path.suffix]} it first"))
            continue
        try:
            yield from read_log(file.path, source=file.name, job=job, owner=file.owner, processes=processes)
        except OSError as problem:
            gaps.append(Unknown(file.name, f"cannot be read: {problem.strerror or problem}", "check its permissions"))


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False
