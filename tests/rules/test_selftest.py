"""The runner of the tests inside rule files."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidiag.collectors.signal import Registry
from aidiag.rules.selftest import run_file

RULE = """\
id: long_queue
cause: c
title: t
severity: warning
scope: rank
when: queue > 5
for: 3s
summary: "{who} waits"
why: w
remedy: [{do: d}]
tests:
  - name: long
    series: {'queue{rank="0"}': 9x20}
    at: 10s
    expect: {ranks: [0], summary: rank 0}
  - name: short
    series: {'queue{rank="0"}': 1x20}
    at: 10s
    expect: quiet
  - name: absent
    absent: [{signal: queue, rank: 0, reason: no record}]
    at: 10s
    expect: undecided
"""


def run(tmp_path: Path, registry: Registry, text: str) -> list[str]:
    """The messages of the tests of a file, empty where one passed."""
    file = tmp_path / "rule.yaml"
    file.write_text(text)
    return [result.message for result in run_file(file, registry)]


def test_tests_that_pass(tmp_path: Path, small: Registry) -> None:
    """A rule that does what its tests say passes them all."""
    assert ["", "", ""] == run(tmp_path, small, RULE)


@pytest.mark.parametrize(
    ("old", "new", "answer"),
    [
        ("9x20", "3x20", "rule.yaml:12: expected a finding, the rule is quiet"),
        ("9x20", "9x1", ""),
        ("ranks: [0]", "ranks: [1]", "rule.yaml:12: expected ranks [1], found [0]"),
        ("summary: rank 0", "summary: rank 7", "expected a summary with 'rank 7', found: rank 0 on a waits"),
        ("{ranks: [0], summary: rank 0}", "{severity: critical}", "expected severity critical, found warning"),
        ("1x20", "9x20", "rule.yaml:16: expected quiet, found: rank 0 on a waits"),
        ("absent: [{signal: queue, rank: 0, reason: no record}]", "series: {'queue{rank=\"0\"}': 1x20}",
         "rule.yaml:20: expected undecided, the rule is quiet"),
        ("1x20}", "_x20}\n    absent: [{signal: queue, rank: 0, reason: no record}]", "undecided: no record"),
        ("{'queue{rank=\"0\"}': 9x20}", "{'queeu{rank=\"0\"}': 9x20}", "rule.yaml:13:33: tests.0.series"),
        ("9x20", "9y20", "is no series"),
        ("expect: quiet", "expect: silence", "expected is quiet, undecided, or what is found"),
        ("expect: quiet", "expct: quiet", "did you mean expect?"),
        ("queue > 5", "queeu > 5", "unknown name queeu"),
        ("expect: undecided", "expect: {ranks: [0]}", "no test expects it undecided"),
        ("at: 10s\n    expect: quiet", "at: 10\n    expect: quiet", "a duration is expected"),
        ("at: 10s\n    expect: quiet", "at: 100h\n    expect: quiet", "more than 10000 intervals"),
        ("absent: [{signal: queue,", "absent: [{signal: nothing,", "there is no signal or event kind nothing"),
        ("at: 10s\n    expect: quiet", "events: [{kind: crush, at: 1s}]\n    at: 10s\n    expect: quiet", "no such event kind"),
        ("at: 10s\n    expect: quiet", "events: [{kind: crash, rank: 0, at: 1s, fields: {cod: 3}}]\n    at: 10s\n    expect: quiet",
         "crash has no field cod"),
    ],
)  # fmt: skip
def test_tests_that_fail(tmp_path: Path, small: Registry, old: str, new: str, answer: str) -> None:
    """A test that does not hold, or cannot be read, says what came out, with its place."""
    assert old in RULE
    messages = run(tmp_path, small, RULE.replace(old, new, 1))

    if answer:
        assert any(answer in message for message in messages), messages
    else:
        assert ["", "", ""] == messages


def test_a_finding_outlives_its_readings_only_as_long_as_they_hold(tmp_path: Path, small: Registry) -> None:
    """A test sees what a sidecar would see: staleness, `for` and `keep_for` included."""
    text = RULE.replace("9x20", "9x1").replace("at: 10s\n    expect: {ranks", "at: 60s\n    expect: {ranks")

    assert "expected a finding, the rule is undecided" in run(tmp_path, small, text)[0]


def test_a_file_that_is_not_there(tmp_path: Path, small: Registry) -> None:
    """A missing file is one failed test."""
    [result] = run_file(tmp_path / "none.yaml", small)

    assert not result.ok
    assert "cannot be read" in result.message
