"""Putting together what the hosts of a job left in its folder."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import msgspec

from aidiag import __version__
from aidiag.collectors.bounded import read_bounded
from aidiag.collectors.errors import CollectorError
from aidiag.collectors.observation import Labels, Sample
from aidiag.collectors.peers import State, decode_state
from aidiag.collectors.subject import Subject, rank
from aidiag.diagnose.incident import LogFile
from aidiag.diagnose.job.evidence import with_true_evidence
from aidiag.diagnose.job.folder import HostFolder, JobFolder, write_atomically
from aidiag.diagnose.job.logs import logs_of
from aidiag.diagnose.job.records import copied_rows
from aidiag.diagnose.job.runs import is_over, read_runs, read_sidecar
from aidiag.diagnose.report.merge import merge
from aidiag.diagnose.report.model import (
    REPORT_LIMIT_BYTES,
    JobFacts,
    RankRow,
    Report,
    ReportError,
    Unknown,
    decode,
    encode,
)
from aidiag.diagnose.report.ranks import rank_rows
from aidiag.rules.causes import Links
from aidiag.rules.finding import Finding
from aidiag.rules.texts import ENGLISH

FINDINGS_LIMIT_BYTES = 16 << 20
STATE_LIMIT_BYTES = 8 << 20
MERGES = 5

JudgeLogs = Callable[[Sequence[LogFile], str], Report]
"""The report on logs of the job of an id."""


class _Line(msgspec.Struct):
    """A line of findings.ndjson."""

    event: str
    unix: float
    finding: Finding | None = None


def gather(
    folder: JobFolder, links: Mapping[str, Links], language: str = ENGLISH, judge_logs: JudgeLogs | None = None
) -> Report:
    """The report of the whole job from what its hosts left, however partial, by what the rules in force declare
    (`links`). Raises OSError where `folder` cannot be listed.

    A host whose sidecar wrote no whole report still counts with the findings that it raised and its last shared state.
    With `judge_logs` the logs of these hosts are read, too, all together, and those of hosts whose part failed: a job
    that ends at its start is over before its sidecar has seen anything. That takes its time, and while the job runs it
    is what the sidecars do.
    """
    reports: list[Report] = []
    gaps: list[Unknown] = []
    logs: list[LogFile] = []
    for host in folder.hosts():
        report, why = _host_report(host)
        if report is None:
            left = logs_of(host)
            if not left and not is_host_folder(host):
                continue
            report, gap = _partial_report(host, why, with_logs=bool(left) and judge_logs is not None)
            logs += left
            gaps.append(gap)
        elif judge_logs is not None and report.job.exit_status:
            logs += logs_of(host)
        reports.append(with_true_evidence(report, folder.path))
    if judge_logs is not None and logs:
        reports.append(judge_logs(logs, next((report.job.id for report in reports if report.job.id), "")))
    return merge(reports, links, language, gaps=gaps)


def write_merged(folder: JobFolder, links: Mapping[str, Links], language: str = ENGLISH) -> Report:
    """Merge and write `report.json` at the top of the job folder. Raises OSError.

    Hosts that finish together all do so, and the one that writes last must have seen all: whoever finds that a host's
    report came while it merged merges again.
    """
    for _ in range(MERGES):
        seen = _reports(folder)
        report = gather(folder, links, language)
        write_atomically(folder.report, encode(report))
        if _reports(folder) == seen:
            break
    return report


def _reports(folder: JobFolder) -> dict[str, int]:
    """When each host's report was written, in nanoseconds."""
    found = {}
    for host in folder.hosts():
        with contextlib.suppress(OSError):
            found[host.path.name] = host.report.stat().st_mtime_ns
    return found


def is_host_folder(host: HostFolder) -> bool:
    """Whether a folder is one host's part of a job folder."""
    return any(path.exists() for path in (host.sidecar, host.findings, host.state)) or bool(read_runs(host))


def _host_report(host: HostFolder) -> tuple[Report | None, str]:
    """The report that a host left; None, and why, where there is no whole one."""
    try:
        return decode(read_bounded(host.report, REPORT_LIMIT_BYTES), name=f"{host.path.name}/report.json"), ""
    except FileNotFoundError:
        return None, "its sidecar left no report"
    except OSError as problem:
        return None, f"its report cannot be read ({problem.strerror or problem})"
    except ReportError as problem:
        return None, str(problem)


def _partial_report(host: HostFolder, why: str, *, with_logs: bool) -> tuple[Report, Unknown]:
    """What a host without a whole report left but for its logs, and the gap that remains."""
    findings = read_findings(host)
    state = _state(host)
    runs = read_runs(host)
    sidecar = read_sidecar(host)
    going = any(not is_over(run, time.time()) for run in runs)
    if going and sidecar is not None and sidecar.state == "running":
        why = "its part of the job still runs"
    seen = f"; its last sign is from {_clock(state.unix)}" if state else ""
    name = state.host if state else runs[0].host if runs else sidecar.host if sidecar else host.path.name
    statuses = [run.exit_status for run in runs if run.exit_status is not None]
    report = Report(
        version=__version__,
        made_at=state.unix if state else None,
        job=JobFacts(
            id=state.job if state else runs[0].job if runs else "",
            hosts=(name,),
            command=" ".join(runs[0].command) if runs else "",
            exit_status=next((status for status in statuses if status), statuses[0] if statuses else None),
        ),
        findings=tuple(findings),
        ranks=_rows(host, state),
    )
    used = "what it had found until then and its logs are" if with_logs else "what it had found until then is"
    remedy = "" if going else f"look at {host.path.name}/sidecar.log"
    return report, Unknown(f"host {name}", f"{why}{seen}; {used} used", remedy)


def read_findings(host: HostFolder) -> list[Finding]:
    """The findings that a host had raised, in their last form; broken lines are passed over."""
    try:
        text = read_bounded(host.findings, FINDINGS_LIMIT_BYTES)
    except OSError:
        return []
    last: dict[str, Finding] = {}
    for line in text.splitlines():
        try:
            entry = msgspec.json.decode(line, type=_Line)
        except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError):
            continue
        if entry.finding is not None:
            last[entry.finding.id] = entry.finding
    return list(last.values())


def _state(host: HostFolder) -> State | None:
    try:
        return decode_state(read_bounded(host.state, STATE_LIMIT_BYTES))
    except (OSError, CollectorError):
        return None


def _rows(host: HostFolder, state: State | None) -> tuple[RankRow, ...]:
    """How far the ranks of a host got: by its last state, and by the copies of their records where it tells of none."""
    rows = {row.rank: row for row in copied_rows(host.records)}
    rows |= {row.rank: row for row in _shared_rows(state)} if state else {}
    return tuple(rows[number] for number in sorted(rows))


def _shared_rows(state: State) -> tuple[RankRow, ...]:
    ranks: defaultdict[Subject, dict[tuple[str, Labels], Sample]] = defaultdict(dict)
    for shared in state.samples:
        if shared.kind == "rank" and shared.name.isdecimal():
            subject = rank(int(shared.name), host=state.host, job=state.job)
            sample = Sample(shared.signal, subject, shared.value, shared.unix, shared.labels)
            ranks[subject][(sample.signal, sample.labels)] = sample
    return rank_rows(ranks)


def _clock(unix: float) -> str:
    return time.strftime("%H:%M:%S UTC", time.gmtime(unix))
