"""`--why`: how the causes of a report were ranked."""

from __future__ import annotations

from collections.abc import Iterator

from aidiag.diagnose.report.escape import one_line
from aidiag.diagnose.report.model import Report
from aidiag.diagnose.report.terminal import blamed
from aidiag.rules.finding import Finding


def ranking(report: Report) -> Iterator[str]:
    """One line for each finding: why it stands where it stands."""
    yield "Ranking:"
    for position, finding in enumerate(report.findings, 1):
        explained = [other for other in report.consequences if other.explained_by == finding.id]
        accounts = f", accounts for {len(explained)} other{'s' if len(explained) != 1 else ''}" if explained else ""
        yield one_line(f"  {position}. {finding.id}: root; {_facts(finding)}{accounts}")
        for other in explained:
            yield one_line(f"       <- {other.id}: consequence; {_facts(other)}")


def _facts(finding: Finding) -> str:
    since = "time unknown" if finding.since is None else f"since {finding.since:.1f}"
    who = blamed(finding.culprit) or "nobody blamed"
    return f"{finding.severity}, confidence {finding.confidence:.0%}, {since}, {who}"
