"""Putting together what the hosts of a job left in its folder."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping

import msgspec

from aidiag import __version__
from aidiag.collectors.errors import CollectorError
from aidiag.collectors.observation import Sample
from aidiag.collectors.peers import State, decode_state
from aidiag.collectors.signal import Registry
from aidiag.collectors.subject import rank
from aidiag.diagnose.job.evidence import with_true_evidence
from aidiag.diagnose.job.folder import HostFolder, JobFolder, read_bounded, write_atomically
from aidiag.diagnose.job.runs import is_over, read_runs, read_sidecar
from aidiag.diagnose.report.merge import merge
from aidiag.diagnose.report.model import JobFacts, RankRow, Report, ReportError, Unknown, decode, encode
from aidiag.diagnose.sidecar.latest import Latest
from aidiag.diagnose.sidecar.ranks import rank_rows
from aidiag.rules.causes import Links
from aidiag.rules.finding import Finding
from aidiag.rules.texts import ENGLISH

FINDINGS_LIMIT_BYTES = 16 << 20
STATE_LIMIT_BYTES = 8 << 20
MERGES = 5


class _Line(msgspec.Struct):
    """A line of findings.ndjson."""

    event: str
    unix: float
    finding: Finding | None = None


def gather(folder: JobFolder, links: Mapping[str, Links], language: str = ENGLISH) -> Report:
    """The report of the whole job from what its hosts left, however partial, by what the rules in force declare
    (`links`). Raises OSError where `folder` cannot be listed.

    A host whose sidecar wrote no report still counts with the findings that it raised and its last shared state.
    """
    reports: list[Report] = []
    gaps: list[Unknown] = []
    for host in folder.hosts():
        if not is_host_folder(host):
            continue
        report, gap = _host_report(host)
        report = None if report is None else with_true_evidence(report, folder.path)
        reports += [report] if report is not None else []
        gaps += [gap] if gap is not None else []
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


def _host_report(host: HostFolder) -> tuple[Report | None, Unknown | None]:
    try:
        return decode(read_bounded(host.report, FINDINGS_LIMIT_BYTES), name=f"{host.path.name}/report.json"), None
    except FileNotFoundError:
        why = "its sidecar left no report"
    except OSError as problem:
        why = f"its report cannot be read ({problem.strerror or problem})"
    except ReportError as problem:
        why = str(problem)
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
        ranks=_rows(state) if state else (),
    )
    remedy = "" if going else f"look at {host.path.name}/sidecar.log"
    return report, Unknown(f"host {name}", f"{why}{seen}; what it had found until then is used", remedy)


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


def _rows(state: State) -> tuple[RankRow, ...]:
    latest = Latest(Registry.of([]), state.host)
    for shared in state.samples:
        if shared.kind == "rank" and shared.name.isdecimal():
            subject = rank(int(shared.name), host=state.host, job=state.job)
            latest.add(Sample(shared.signal, subject, shared.value, shared.unix, shared.labels))
    return rank_rows(latest.ranks(), 0.0)


def _clock(unix: float) -> str:
    return time.strftime("%H:%M:%S UTC", time.gmtime(unix))
