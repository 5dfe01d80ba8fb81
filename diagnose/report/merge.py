"""One report from those of several hosts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from aidiag.diagnose.report.model import JobFacts, RankRow, Report, Unknown
from aidiag.diagnose.report.nccl_view import joined
from aidiag.diagnose.report.questions import questions, without_questions
from aidiag.diagnose.report.seen import seen_anywhere
from aidiag.rules.causes import Links, arrange
from aidiag.rules.finding import SEVERITIES, Culprit, Finding
from aidiag.rules.texts import ENGLISH

T = TypeVar("T")


def merge(
    reports: Sequence[Report], links: Mapping[str, Links], language: str = ENGLISH, *, gaps: Iterable[Unknown] = ()
) -> Report:
    """The report of the whole job, by what the rules in force declare (`links`).

    The same finding (by id) of several hosts becomes one with the evidence and the culprits of all; who is told as
    missing on one host and was seen on another is not missing. What is a root and what a consequence is decided anew
    over all hosts, and so is which questions stay open: those that a host had asked are withdrawn. `gaps` are added to
    what could not be seen, such as hosts that left no report.
    """
    if not reports:
        return Report(unknown=tuple(gaps))
    ranks = _ranks(row for report in reports for row in report.ranks)
    told = (finding for report in reports for finding in (*report.findings, *report.consequences))
    together: dict[str, Finding] = {}
    for finding in seen_anywhere(told, ranks, links, language):
        fresh = replace(finding, explains=(), explained_by=None)
        known = together.get(finding.id)
        together[finding.id] = fresh if known is None else _join(known, fresh)
    roots, consequences = arrange(together.values(), links)
    unknown = [gap for report in reports for gap in without_questions(report, links)]
    return Report(
        version=reports[0].version,
        made_at=max((report.made_at for report in reports if report.made_at is not None), default=None),
        job=_job([report.job for report in reports]),
        findings=tuple(roots),
        consequences=tuple(consequences),
        unknown=_unique(unknown, (*gaps, *questions(roots, links, language))),
        ranks=ranks,
        checks=tuple(check for report in reports for check in report.checks),
        nccl=joined(report.nccl for report in reports),
    )


def _join(one: Finding, other: Finding) -> Finding:
    """One finding of two that are the same fault. The texts are those of the host that saw it with more confidence."""
    lead, second = (one, other) if one.confidence >= other.confidence else (other, one)
    return replace(
        lead,
        severity=max(one.severity, other.severity, key=SEVERITIES.index),
        culprit=_blame(lead.culprit, second.culprit),
        since=_earliest(one.since, other.since),
        found_at=_earliest(one.found_at, other.found_at),
        evidence=_unique(lead.evidence, second.evidence),
    )


def _blame(one: Culprit | None, other: Culprit | None) -> Culprit | None:
    if one is None or other is None:
        return one or other
    return Culprit(
        one.kind,
        tuple(sorted({*one.ranks, *other.ranks})),
        _unique(one.hosts, other.hosts),
        _unique(one.targets, other.targets),
    )


def _earliest(one: float | None, other: float | None) -> float | None:
    return min((time for time in (one, other) if time is not None), default=None)


def _unique(one: Iterable[T], other: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys((*one, *other)))


def _job(jobs: Sequence[JobFacts]) -> JobFacts:
    """The facts of the job. Its exit status is the first that is not zero, else zero, else unknown."""
    statuses = [job.exit_status for job in jobs if job.exit_status is not None]
    return JobFacts(
        id=next((job.id for job in jobs if job.id), ""),
        hosts=tuple(sorted({host for job in jobs for host in job.hosts})),
        world_size=max((job.world_size for job in jobs if job.world_size is not None), default=None),
        command=next((job.command for job in jobs if job.command), ""),
        exit_status=next((status for status in statuses if status), statuses[0] if statuses else None),
    )


def _ranks(rows: Iterable[RankRow]) -> tuple[RankRow, ...]:
    """One row a rank: the one that knows most, so that a host that only missed a rank does not hide its own row."""
    best: dict[int, RankRow] = {}
    for row in rows:
        known = best.get(row.rank)
        if known is None or _knowledge(row) > _knowledge(known):
            best[row.rank] = row
    return tuple(best[rank] for rank in sorted(best))


def _knowledge(row: RankRow) -> tuple[bool, bool, bool, float]:
    return (row.pid is not None, row.steps is not None, row.state != "missing", row.last_seen or 0.0)
