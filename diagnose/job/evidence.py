"""Evidence of reports that other hosts wrote: what does not stand where it says is dropped."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from aidiag.collectors.logs import read_lines
from aidiag.diagnose.report.model import Report
from aidiag.rules.finding import Evidence, Finding


def with_true_evidence(report: Report, folder: Path) -> Report:
    """The report with only that evidence whose line of its source, a file below `folder`, holds its text."""
    findings = (*report.findings, *report.consequences)
    true = _true([item for finding in findings for item in finding.evidence], folder)

    def kept(finding: Finding) -> Finding:
        return replace(finding, evidence=tuple(item for item in finding.evidence if item.line is None or item in true))

    return replace(
        report, findings=tuple(map(kept, report.findings)), consequences=tuple(map(kept, report.consequences))
    )


def _true(evidence: Iterable[Evidence], folder: Path) -> set[Evidence]:
    """The evidence that stands. Each source is read once, as far as its last line that is wanted."""
    claims: dict[str, dict[int, list[Evidence]]] = defaultdict(lambda: defaultdict(list))
    for item in evidence:
        if item.line is not None:
            claims[item.source][item.line].append(item)
    true: set[Evidence] = set()
    for source, wanted in claims.items():
        with contextlib.suppress(OSError, ValueError):
            path = folder / source
            if path.resolve().is_relative_to(folder.resolve()):
                for number, line in read_lines(path, wanted):
                    true.update(item for item in wanted[number] if item.text in line)
    return true
