"""Logs of large jobs in which everything fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidiag.collectors import registry
from aidiag.collectors.observation import Observation
from aidiag.diagnose import incident
from aidiag.diagnose.incident import LogFile, diagnose_logs
from aidiag.diagnose.report.model import Report
from aidiag.rules.loader import load_rules
from aidiag.rules.window import Window

OOM = (
    "[rank{n}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
    "79.15 GiB of which 1.00 GiB is free. Process 1 has 78.00 GiB memory in use. Of the allocated memory 77.00 GiB is "
    "allocated by PyTorch, and 200.00 MiB is reserved by PyTorch but unallocated.\n"
)
FAILED = (
    "E0102 03:04:05.678000 4000 torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: 3) "
    "local_rank: {n} (pid: {pid}) of binary: /usr/bin/python3\n"
)


def judged(tmp_path: Path, text: str) -> Report:
    """The report on a log."""
    (tmp_path / "job.log").write_text(text)
    known = registry()
    rules = load_rules((), known).rules
    return diagnose_logs([LogFile(tmp_path / "job.log", "job.log")], rules=rules, registry=known, language="en")


def test_a_failing_crowd_does_not_hide_what_came_first(tmp_path: Path) -> None:
    """Of a log in which a worker fails and then 700 ranks run out of memory, both are told, the crowd in one finding."""
    report = judged(tmp_path, FAILED.format(n=0, pid=77) + "".join(OOM.format(n=n) for n in range(700)))

    roots = {finding.rule: finding for finding in report.findings}
    assert {"rank_failed", "cuda_out_of_memory"} <= {f.rule for f in (*report.findings, *report.consequences)}
    crowd = roots["cuda_out_of_memory"].culprit
    assert crowd is not None
    assert tuple(range(700)) == crowd.ranks
    assert not [gap for gap in report.unknown if gap.what == "findings"]


def test_what_is_left_out_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are more findings than a report may have, their number is among what could not be seen."""
    monkeypatch.setattr(incident, "FINDINGS_CAP", 1)
    report = judged(tmp_path, FAILED.format(n=0, pid=77) + OOM.format(n=3))

    assert 1 == len(report.findings) + len(report.consequences)
    assert ["1 further ones are left out"] == [gap.reason for gap in report.unknown if gap.what == "findings"]


def test_a_log_with_too_much_in_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the rules could not look at all that a log tells, the report says what they missed."""

    def full(window: Window, observation: Observation) -> None:
        window.dropped["cuda_out_of_memory"] = 12_345

    monkeypatch.setattr(Window, "add", full)
    (gap,) = judged(tmp_path, OOM.format(n=3)).unknown

    assert "12,345 of cuda_out_of_memory were never judged" in gap.reason
