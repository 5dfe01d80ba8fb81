"""Evidence of reports that other hosts wrote: what does not stand where it says is dropped."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from aidiag.collectors.bounded import read_bounded
from aidiag.diagnose.report.model import Report
from aidiag.rules.finding import Evidence, Finding

SOURCE_LIMIT_BYTES = 64 << 20


def with_true_evidence(report: Report, folder: Path) -> Report:
    """The report with only that evidence whose line of its source, a file below `folder`, holds its text."""

    @lru_cache(maxsize=64)
    def lines(source: str) -> tuple[str, ...]:
        path = folder / source
        try:
            if not path.resolve().is_relative_to(folder.resolve()):
                return ()
            return tuple(read_bounded(path, SOURCE_LIMIT_BYTES).decode(errors="replace").splitlines())
        except (OSError, ValueError):
            return ()

    def stands(item: Evidence) -> bool:
        if item.line is None:
            return True
        found = lines(item.source)
        return 1 <= item.line <= len(found) and item.text in found[item.line - 1]

    def kept(finding: Finding) -> Finding:
        return replace(finding, evidence=tuple(item for item in finding.evidence if stands(item)))

    return replace(
        report, findings=tuple(map(kept, report.findings)), consequences=tuple(map(kept, report.consequences))
    )
