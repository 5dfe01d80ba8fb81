"""Judging files after the fact."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidiag.collectors import registry
from aidiag.diagnose.incident import LogFile, diagnose_logs
from aidiag.diagnose.report.model import Report
from aidiag.rules.history import events
from aidiag.rules.loader import load_rules

FAILING = "[rank{0}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


def diagnosed(folder: Path, ranks: int) -> Report:
    """The report on a log in which each of some ranks runs out of memory."""
    path = folder / "job.log"
    path.write_text("".join(FAILING.format(rank) for rank in range(ranks)))
    known = registry()
    files = [LogFile(path, path.name)]
    return diagnose_logs(files, rules=load_rules((), known).rules, registry=known, language="en")


def test_what_is_too_much_to_remember_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When more ranks fail than can be remembered, the report says that some are left out, and what to do."""
    monkeypatch.setattr(events, "SUBJECTS_KEPT", 5)
    [gap] = [gap for gap in diagnosed(tmp_path, 12).unknown if gap.what == "observations"]

    assert "7 of cuda_out_of_memory were never judged" in gap.reason
    assert gap.remedy


def test_what_can_be_remembered_is_all_told(tmp_path: Path) -> None:
    """Where all ranks are judged nothing is said to be left out."""
    assert [] == [gap for gap in diagnosed(tmp_path, 12).unknown if gap.what == "observations"]
