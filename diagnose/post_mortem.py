"""`aidiag diagnose`: what each path is, and the one report on all of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import BinaryIO

from aidiag.collectors import registry
from aidiag.collectors.bounded import read_bounded
from aidiag.diagnose.config import Config
from aidiag.diagnose.incident import LogFile, PathError, diagnose_logs, files_in, shown, size_bytes
from aidiag.diagnose.job.evidence import with_true_evidence
from aidiag.diagnose.job.folder import HostFolder, JobFolder
from aidiag.diagnose.job.gather import gather, is_host_folder
from aidiag.diagnose.job.records import SUFFIX, record_report
from aidiag.diagnose.report.merge import merge
from aidiag.diagnose.report.model import REPORT_LIMIT_BYTES, SCHEMA, Report, ReportError, Unknown, decode
from aidiag.diagnose.report.progress import Progress
from aidiag.diagnose.rulebook import load_rulebook
from aidiag.rules.causes import Links, links_of
from aidiag.trainer_shim.model import RecordError

RECORDS_CAP = 4096


def diagnose(
    paths: Sequence[str],
    config: Config,
    language: str,
    standard_input: BinaryIO,
    progress: Progress | None = None,
    unseen: Sequence[Unknown] = (),
    *,
    fetched: bool = False,
) -> Report:
    """The report on all `paths` together: job folders, incident folders, reports and logs; `-` is standard input.
    `progress` shows how far the reading of logs has come; `unseen` is what is known to be missing. Evidence in a folder
    that the user has named is told from there on; in one that was `fetched`, with the folder.

    Raises PathError for a path that is not there or cannot be read at all.
    """

    known = registry()
    rules = cache(lambda: load_rulebook(known, config).rules)

    def links() -> dict[str, Links]:
        return links_of(rules())

    def judged(logs: Sequence[LogFile], job: str = "", stream: BinaryIO | None = None) -> Report:
        if progress is None:
            return diagnose_logs(logs, rules=rules(), registry=known, language=language, stream=stream, job=job)
        progress.expect(None if stream is not None else size_bytes(logs))
        try:
            return diagnose_logs(
                logs, rules=rules(), registry=known, language=language, stream=stream, job=job, progress=progress
            )
        finally:
            progress.erase()

    reports: list[Report] = []
    files: list[LogFile] = []
    gaps: list[Unknown] = list(unseen)
    stream: BinaryIO | None = None
    for text in paths:
        if text == "-":
            stream = standard_input
            continue
        path = Path(text)
        if not text or not path.exists():
            raise PathError(
                f"{shown(text) or 'an empty path'}: there is no such file or folder; give a log, a job folder or an incident folder"
            )
        if path.is_dir():
            kind = _job_folder(path)
            if kind is not None:
                reports.append(gather(kind, links(), language, judged))
            else:
                files += _of_folder(path, many=len(paths) > 1 or fetched)
                reports += _left_in(path, gaps)
        elif path.is_file():
            found = _record(path.resolve()) if path.suffix == SUFFIX else _report(path)
            if found is not None:
                reports.append(found)
            else:
                files.append(LogFile(path.resolve(), shown(text)))  # a link that the user names is followed
        else:
            raise PathError(f"{shown(text)}: is neither a file nor a folder; give `-` to read from a pipe")
    if files or stream is not None or not reports:
        reports.append(judged(files, stream=stream))
    return reports[0] if len(reports) == 1 and not gaps else merge(reports, links(), language, gaps=gaps)


def _record(path: Path) -> Report:
    try:
        return record_report(path)
    except RecordError as problem:
        raise PathError(f"{path}: not a whole record of the trainer shim: {problem.reason}") from None


def _left_in(path: Path, gaps: list[Unknown]) -> list[Report]:
    """The report and records that lie in an incident folder; one that cannot be used is told as not seen."""
    return [*_report_left_in(path, gaps), *_records_left_in(path, gaps)]


def _records_left_in(path: Path, gaps: list[Unknown]) -> list[Report]:
    reports = []
    for file in sorted(path.rglob(f"*{SUFFIX}"))[:RECORDS_CAP]:
        try:
            reports.append(_record(file))
        except PathError as problem:
            gaps.append(Unknown(shown(file.relative_to(path)), str(problem)))
    return reports


def _report_left_in(path: Path, gaps: list[Unknown]) -> list[Report]:
    if not (path / "report.json").is_file():
        return []
    try:
        found = _report(path / "report.json")
    except PathError as problem:
        gaps.append(Unknown("report.json", str(problem), "the other files are used"))
        return []
    return [] if found is None else [with_true_evidence(found, path)]


def _job_folder(path: Path) -> JobFolder | None:
    """The job folder that `path` is, or that it is one host's part of; None where it is neither."""
    try:
        if any(is_host_folder(host) for host in JobFolder(path).hosts()):
            return JobFolder(path)
        if is_host_folder(HostFolder(path)):
            return JobFolder(path.resolve().parent)
    except OSError as problem:
        raise PathError(f"{path}: cannot be listed: {problem.strerror or problem}") from None
    return None


def _of_folder(path: Path, *, many: bool) -> list[LogFile]:
    files = files_in(path)
    return [LogFile(file.path, shown(path / file.name)) for file in files] if many else files


def _report(path: Path) -> Report | None:
    """The report that a file holds, None where it holds something else."""
    if path.suffix != ".json":
        return None
    try:
        text = read_bounded(path, REPORT_LIMIT_BYTES)
    except OSError as problem:
        raise PathError(f"{path}: cannot be read: {problem.strerror or problem}") from None
    if SCHEMA.encode() not in text:
        if path.name == "report.json":
            raise PathError(f"{path}: not a report of {SCHEMA}; it is broken or of another program")
        return None
    try:
        return decode(text, name=str(path))
    except ReportError as problem:
        raise PathError(str(problem)) from None
