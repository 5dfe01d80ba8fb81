"""A healthy log with every phrase that frightens, and the same log with one fault in it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from aidiag.collectors import registry
from aidiag.diagnose.incident import LogFile, diagnose_logs
from aidiag.diagnose.report.model import Report
from aidiag.rules.loader import load_rules
from tests.job_logs import HARMLESS, PLANTED, Planted, healthy

LINES = 97 * len(HARMLESS)


def report_on(path: Path, lines: list[str]) -> Report:
    """What diagnose says of a log."""
    path.write_text("\n".join(lines) + "\n")
    known = registry()
    return diagnose_logs([LogFile(path, path.name)], rules=load_rules((), known).rules, registry=known, language="en")


def test_harmless_phrases_raise_no_alarm(tmp_path: Path) -> None:
    """However frightening, and however often."""
    report = report_on(tmp_path / "job.log", list(healthy(random.Random(1), LINES)))
    assert [] == [
        (finding.cause, [one.text for one in finding.evidence])
        for finding in (*report.findings, *report.consequences)
        if finding.severity != "info"
    ]


@pytest.mark.parametrize("planted", [pytest.param(one, id=one.cause) for one in PLANTED])
def test_a_fault_among_them_is_the_one_that_is_named(tmp_path: Path, planted: Planted) -> None:
    """Its victims are consequences, and nothing else is a root."""
    report = report_on(tmp_path / "job.log", [*healthy(random.Random(1), LINES), *planted.lines])
    assert [planted.cause] == [finding.cause for finding in report.findings if finding.severity != "info"]
    culprit = report.findings[0].culprit
    assert not planted.ranks or (culprit is not None and culprit.ranks == planted.ranks)
