"""What the hosts of a job left, whole, partial, broken or made up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from aidiag.diagnose.job.folder import JobFolder
from aidiag.diagnose.job.gather import gather
from aidiag.diagnose.report.model import JobFacts, Report, encode
from aidiag.rules.finding import Culprit, Evidence, Finding, Severity

FINDING = Finding(
    "input_bound/j", "util_input_bound", "input_bound", "warning", 0.9, "Input bound", "61 %", Culprit("rank", (1,)),
    None, None, (Evidence("b/evidence.txt", 1, "61 %"),), "why", (),
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    """A job folder with the parts of two hosts, and evidence of one."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "sidecar.json").write_text("{}")
    (tmp_path / "b" / "evidence.txt").write_text("record of rank 1: 61 % of the step\n")
    return JobFolder(tmp_path)


def leave(folder: JobFolder, host: str, finding: Finding) -> None:
    """A host's report."""
    report = Report(job=JobFacts("j", (host,)), findings=(finding,))
    (folder.path / host / "report.json").write_bytes(encode(report))


def test_host_without_a_report_still_counts(folder: JobFolder) -> None:
    """A killed sidecar left its raised findings: they are used, and the missing report is told."""
    leave(folder, "a", replace(FINDING, id="x/j", rule="x", cause="x"))
    line = {"event": "raised", "unix": 1.0, "finding": FINDING}
    (folder.path / "b" / "findings.ndjson").write_bytes(b"broken\n" + msgspec.json.encode(line) + b"\n{\n")

    report = gather(folder, {})

    assert {"x", "input_bound"} == {finding.rule for finding in report.findings}
    assert ["host b"] == [gap.what for gap in report.unknown]


def test_evidence_that_is_not_there_is_dropped(folder: JobFolder) -> None:
    """Evidence is kept only where its line holds its text, below the job folder."""
    made_up = (
        Evidence("b/evidence.txt", 1, "61 %"),
        Evidence("b/evidence.txt", 2, "61 %"),
        Evidence("b/evidence.txt", 1, "99 %"),
        Evidence("/etc/passwd", 1, "root"),
        Evidence("../../etc/passwd", 1, "root"),
    )
    leave(folder, "b", replace(FINDING, evidence=made_up))

    (finding,) = gather(folder, {}).findings

    assert made_up[:1] == finding.evidence


def test_evidence_in_a_huge_log_is_kept(folder: JobFolder) -> None:
    """A line far behind the first 64 MiB of a log is found there, one of a line that ends in a bare return, too."""
    with (folder.path / "b" / "nccl.b.7.log").open("wb") as log:
        log.write(b"progress 1\rprogress 2\r")
        for _ in range(70):
            log.write((b"." * 1023 + b"\n") * 1024)
        log.write(b"the proof \xff\n")
    true = (
        Evidence("b/nccl.b.7.log", 2, "progress 2"),
        Evidence("b/nccl.b.7.log", 3 + 70 * 1024, "proof \\xff"),
    )
    leave(folder, "b", replace(FINDING, evidence=(*true, replace(true[1], line=2 + 70 * 1024))))

    (finding,) = gather(folder, {}).findings

    assert true == finding.evidence


@pytest.mark.parametrize(
    "change",
    [
        {"confidence": 99.0},
        {"confidence": -1.0},
        {"culprit": Culprit("rank", (-1,))},
        {"culprit": Culprit("rank", (1 << 30,))},
    ],
)
def test_impossible_values_are_refused(folder: JobFolder, change: dict[str, Severity]) -> None:
    """A report with values that ours cannot have is not used, and that is told."""
    leave(folder, "b", replace(FINDING, **change))  # type: ignore[arg-type]

    report = gather(folder, {})

    assert () == report.findings
    assert any("not a report" in gap.reason for gap in report.unknown)
