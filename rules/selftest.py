"""The tests inside rule files: series and events in, a verdict out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aidiag.collectors.signal import Registry
from aidiag.rules.engine import judge
from aidiag.rules.finding import Finding
from aidiag.rules.judgement import Judgement
from aidiag.rules.loading.errors import RuleError
from aidiag.rules.promseries import DEFAULT_JOB
from aidiag.rules.rule_tests import VERDICTS, RuleTest, read_tests
from aidiag.rules.texts import ENGLISH
from aidiag.rules.tracker import Tracker
from aidiag.rules.window import Window


@dataclass(frozen=True, slots=True)
class RuleTestResult:
    """How a test of a rule ended. `message` says what came out instead, with its place."""

    rule: str
    test: str
    ok: bool
    message: str = ""


def run_file(path: Path, registry: Registry) -> list[RuleTestResult]:
    """Run the tests of a rule file. A file that cannot be read is one failed test."""
    try:
        tests = read_tests(path, registry)
    except RuleError as error:
        return [RuleTestResult(path.stem, "reading the file", False, str(error))]
    return [run_test(test, registry) for test in tests]


def run_test(test: RuleTest, registry: Registry) -> RuleTestResult:
    """Run one test."""
    findings, judgements = outcome(test, registry)
    wrong = _difference(test.expect, findings, judgements)
    message = f"{test.rule.path}:{test.line}: {wrong}" if wrong else ""
    return RuleTestResult(test.rule.id, test.name, not wrong, message)


def outcome(test: RuleTest, registry: Registry, language: str = ENGLISH) -> tuple[list[Finding], list[Judgement]]:
    """The findings and the last judgements of a test, judged interval by interval as a sidecar would."""
    window = Window(registry, unix_offset=0.0)
    tracker = Tracker(unix_offset=0.0, job=DEFAULT_JOB, language=language)
    findings: list[Finding] = []
    judgements: list[Judgement] = []
    events = sorted(test.events, key=lambda event: event.time or 0.0)
    ticks = int(test.at_seconds / test.interval_seconds + 1e-9)
    window.add_all(test.absences)
    for tick in range(ticks + 1):
        now = tick * test.interval_seconds
        window.add_all(test.samples.get(tick, ()))
        while events and (events[0].time or 0.0) <= now:
            window.add(events.pop(0))
        judgements = judge([test.rule], window, now)
        findings = tracker.update(judgements, now)
    return findings, judgements


def _difference(expect: Any, findings: list[Finding], judgements: list[Judgement]) -> str:
    """What came out instead of what was expected, empty where it is the same."""
    undecided = [judgement for judgement in judgements if judgement.state == "undecided"]
    if expect in VERDICTS:
        if findings:
            return f"expected {expect}, found: {findings[0].summary}"
        reasons = "; ".join(dict.fromkeys(gap.reason for one in undecided for gap in one.gaps))
        if expect == "undecided" and not undecided:
            return "expected undecided, the rule is quiet"
        return f"expected quiet, the rule is undecided: {reasons}" if expect == "quiet" and undecided else ""
    if not findings:
        return f"expected a finding, the rule is {'undecided' if undecided else 'quiet'}"
    culprits = [finding.culprit for finding in findings if finding.culprit]
    seen = {
        "ranks": sorted({rank for culprit in culprits for rank in culprit.ranks}),
        "hosts": sorted({host for culprit in culprits for host in culprit.hosts}),
        "targets": sorted({target for culprit in culprits for target in culprit.targets}),
        "severity": findings[0].severity,
        "findings": len(findings),
    }
    for key, wanted in expect.items():
        if key == "summary":
            if not any(wanted in finding.summary for finding in findings):
                return f"expected a summary with {wanted!r}, found: {findings[0].summary}"
        elif seen[key] != (sorted(wanted) if isinstance(wanted, list) else wanted):
            return f"expected {key} {wanted}, found {seen[key]}"
    return ""
