"""Questions that the evidence leaves open, told among what could not be seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aidiag.diagnose.report.model import Report, Unknown
from aidiag.rules.causes import Links, open_questions
from aidiag.rules.finding import Finding


def questions(roots: Sequence[Finding], links: Mapping[str, Links], language: str) -> tuple[Unknown, ...]:
    """Roots of which only one can be true, each pair with what would decide between the two."""
    titles = {finding.id: finding.title for finding in roots}
    return tuple(
        Unknown(" / ".join(titles.get(key, key) for key in question.findings), question.what, question.decide)
        for question in open_questions(roots, links, language)
    )


def without_questions(report: Report, links: Mapping[str, Links]) -> tuple[Unknown, ...]:
    """What a report could not see but for the questions that it left open, in whatever language it asked them."""
    asked = {question.what for question in open_questions(report.findings, links)}
    return tuple(gap for gap in report.unknown if gap.what not in asked)
