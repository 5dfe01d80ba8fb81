"""Findings that blame ranks for not having been seen, against what all hosts together have seen.

A host sees only its own ranks and takes those of a host that it cannot look at for missing, and so does the other one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from aidiag.collectors.subject import rank
from aidiag.diagnose.report.model import RankRow
from aidiag.diagnose.report.words import words
from aidiag.rules.causes import Links
from aidiag.rules.finding import Culprit, Finding
from aidiag.rules.places import who


def seen_anywhere(
    findings: Iterable[Finding], rows: Iterable[RankRow], links: Mapping[str, Links], language: str
) -> Iterator[Finding]:
    """The findings without those culprits of an `unseen` rule that somebody saw; one that blames nobody any more goes.

    What such a finding said of the numbers that one host saw is told anew.
    """
    seen = {row.rank for row in rows if _is_sign(row)}
    for finding in findings:
        culprit = finding.culprit
        if culprit is None or not culprit.ranks or not links.get(finding.rule, Links()).unseen:
            yield finding
            continue
        missing = tuple(number for number in culprit.ranks if number not in seen)
        if missing == culprit.ranks:
            yield finding
        elif missing:
            yield _about(finding, replace(culprit, ranks=missing), language)


def _is_sign(row: RankRow) -> bool:
    """Whether a row tells of a rank that was there; one that was only expected has nothing but its number."""
    return row.state not in ("unknown", "missing") or (row.pid, row.steps, row.last_seen) != (None, None, None)


def _about(finding: Finding, culprit: Culprit, language: str) -> Finding:
    """A finding that blames fewer ranks than it did, in its texts as well."""
    before, after = (
        who([rank(number, host="", job="") for number in ranks], language)
        for ranks in (finding.culprit.ranks if finding.culprit else (), culprit.ranks)
    )
    remedy = tuple(replace(step, do=step.do.replace(before, after)) for step in finding.remedy)
    summary = words(language)["no_sign"].format(who=after)
    return replace(finding, culprit=culprit, summary=summary, remedy=remedy)
