"""Judging files after the fact: logs and host transcripts, from a folder or one by one."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from aidiag import __version__
from aidiag.collectors.logs import read_lines, read_log
from aidiag.collectors.logs.attribution import Owner
from aidiag.collectors.logs.comparing import Comparison
from aidiag.collectors.logs.compressed import CompressedError, plain_name
from aidiag.collectors.logs.processes import Processes
from aidiag.collectors.logs.roster import Roster
from aidiag.collectors.observation import Event
from aidiag.collectors.signal import Registry
from aidiag.diagnose.clocks import Clocks, corrected, differing
from aidiag.diagnose.failed_worker import FailedWorkers
from aidiag.diagnose.own_values import OwnValues
from aidiag.diagnose.report.cut import within
from aidiag.diagnose.report.left_out import left_out, told
from aidiag.diagnose.report.model import UNRECOGNISED, JobFacts, Report, Unknown
from aidiag.diagnose.report.nccl_seen import NcclSeen
from aidiag.diagnose.report.phases import Phases
from aidiag.diagnose.report.questions import questions
from aidiag.rules.causes import arrange, links_of
from aidiag.rules.engine import Tracker, judge
from aidiag.rules.finding import Finding
from aidiag.rules.model import Rule
from aidiag.rules.window import Window

FILES_CAP = 10_000
DEPTH_CAP = 4
LEFT_OUT = (".json", ".ndjson", ".record", ".pickle", ".lock", ".pt", ".png")
"""Endings of files in an incident folder that are not text logs."""
ARCHIVES = (".tar", ".tgz", ".txz", ".tbz2", ".zip", ".7z")
"""Endings of files that hold other files: a line of theirs is a line of nothing that a person can look at."""
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
            if name.startswith(".") or plain_name(name).endswith(LEFT_OUT) or not _is_regular(path):
                continue
            found.append(LogFile(path, shown(path.relative_to(folder))))
    return found[:FILES_CAP]


def size_bytes(files: Iterable[LogFile]) -> int:
    """How much there is to read, as the files lie there."""
    total = 0
    for file in files:
        with contextlib.suppress(OSError):
            total += file.path.stat().st_size
    return total


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
    progress: Callable[[int], None] = lambda _: None,
) -> Report:
    """The report on log files, and on `stream` where one is given (named `-`). `job` is the job that they are of.
    `progress` is told how many more bytes were read.

    A file that cannot be read is told among what could not be seen; the others are judged.
    """
    window = Window(registry, event_horizon_seconds=None, unix_offset=0.0)
    gaps: list[Unknown] = []
    latest = 0.0
    recognised = False
    nccl = NcclSeen()
    phases = Phases()
    files = list(files)
    comparison = Comparison()
    own, clocks, workers = OwnValues(), Clocks(), FailedWorkers(job)
    for event in phases.follow(_with_roster(workers.follow(_events(files, gaps, stream, job, progress)))):
        nccl.add(event)
        window.add(event)
        comparison.add(event)
        own.see(event)
        clocks.see(event)
        recognised = True
        latest = max(latest, window.time_of(event) or 0.0)
    for event in comparison.finish(_lines_between(files)):
        window.add(event)
    tracker = Tracker(unix_offset=0.0, language=language, job=job)
    findings = [own.fill(one) for one in tracker.update(judge(rules, window, latest), latest, final=True)]
    findings = corrected(findings, clocks.ahead())
    findings = [_quoting_lines(one) for one in workers.attribute(findings, {rule.id: rule for rule in rules}, language)]
    links = links_of(rules)
    roots, consequences = within(FINDINGS_CAP, *arrange(findings, links))
    if not recognised and not job:
        gaps.append(
            Unknown(
                UNRECOGNISED,
                "none of their lines is one that aidiag knows",
                "give what the ranks printed, and NCCL's lines (NCCL_DEBUG=INFO)",
            )
        )
    gaps += told(left_out(window))
    gaps += differing(clocks)
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
        nccl=nccl.view(),
    )


def _with_roster(events: Iterable[Event]) -> Iterator[Event]:
    """The events, and what they say only together."""
    roster = Roster()
    for event in events:
        yield from roster.see(event)
    yield from roster.close()


def _quoting_lines(finding: Finding) -> Finding:
    """A finding with the evidence that stands in the logs; where there is such, what else was concluded is left to `why`."""
    lines = tuple(item for item in finding.evidence if item.line is not None)
    return replace(finding, evidence=lines) if lines else finding


def _events(
    files: Iterable[LogFile],
    gaps: list[Unknown],
    stream: BinaryIO | None,
    job: str,
    progress: Callable[[int], None],
) -> Iterator[Event]:
    processes = Processes()
    if stream is not None:
        try:
            yield from read_log(stream, source="-", job=job, processes=processes, read=progress)
        except CompressedError as problem:
            gaps.append(Unknown("-", str(problem.strerror), problem.remedy))
    for file in files:
        if plain_name(file.path.name).endswith(ARCHIVES):
            gaps.append(Unknown(file.name, "is an archive", "unpack it, and give the folder"))
            continue
        try:
            yield from read_log(
                file.path, source=file.name, job=job, owner=file.owner, processes=processes, read=progress
            )
        except CompressedError as problem:
            gaps.append(Unknown(file.name, str(problem.strerror), problem.remedy))
        except OSError as problem:
            gaps.append(Unknown(file.name, f"cannot be read: {problem.strerror or problem}", "check its permissions"))


def _lines_between(files: Sequence[LogFile]) -> Callable[[str, int, int], Sequence[str]]:
    """Reads lines of the logs again, by the name of the log; none of those that are gone or a stream."""
    paths = {file.name: file.path for file in files}

    def between(source: str, first: int, last: int) -> Sequence[str]:
        try:
            return [text for _, text in read_lines(paths[source], range(first + 1, last))] if source in paths else ()
        except OSError:
            return ()

    return between


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False
