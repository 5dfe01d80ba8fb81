"""A daemon fills the folders of the jobs that it sees."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from aidiag.collectors.collector import SystemClock
from aidiag.collectors.observation import Sample
from aidiag.collectors.run_files import RunFile
from aidiag.collectors.subject import rank
from aidiag.diagnose.job.folder import HostFolder, make
from aidiag.diagnose.job.ledger import Change
from aidiag.diagnose.job.process import mark
from aidiag.diagnose.job.runs import write_run
from aidiag.diagnose.report.model import Report, decode
from aidiag.diagnose.sidecar.job_folders import LOOK_EVERY_SECONDS, JobFolders
from aidiag.diagnose.sidecar.snapshot import Snapshot
from aidiag.rules.causes import arrange
from aidiag.rules.finding import Culprit, Evidence, Finding
from aidiag.trainer_shim import identity, owner
from aidiag.trainer_shim.model import Identity

BEGAN = time.time() - 60.0


def trainer(job: str, out: Path | None) -> Identity:
    """Who rank 0 of a job is; `out` is where its launcher's `aidiag env` has made the folder."""
    environ = {"AIDIAG_JOB_ID": job, **({"AIDIAG_OUT": str(out)} if out else {})}
    facts = {**identity.identity(environ, "/"), **identity.process_identity(owner.this_process())}
    return Identity(**{**facts, "started_unix": BEGAN})  # type: ignore[arg-type]


def finding(job: str, number: int = 0) -> Finding:
    """A finding on rank `number` of a job; one of the host itself where no job is given."""
    evidence = (Evidence("record of rank 0", None, "loader_wait_seconds_total: 81 %"),)
    return Finding(
        f"r/{job}/rank-{number}", "straggler", "r", "warning", 0.5, "t", "s", Culprit("rank", (number,), ("a",)), 1.0, 2.0,
        evidence, "", (),
    )  # fmt: skip


def snapshot(at: float, jobs: Iterable[str], findings: Iterable[Finding] = ()) -> Snapshot:
    """What a daemon sees at second `at`."""
    samples = [Sample("steps_total", rank(0, host="a", job=job), 7.0, at) for job in jobs]
    return Snapshot("a", at, BEGAN + at, tuple(samples), tuple(findings), ready=True)


def folders(*trainers: Identity, given: Path | None = None) -> JobFolders:
    """The output under test."""
    return JobFolders(lambda: trainers, lambda found: arrange(list(found), {}), dict, SystemClock(), given=given)


def report(host: HostFolder) -> Report:
    """What lies in a folder."""
    return decode(host.report.read_bytes())


def test_each_job_gets_what_concerns_it(tmp_path: Path) -> None:
    """Findings of the job and of the host below it, its ranks, true evidence; nothing of another job; and a job without
    a folder gets none.
    """
    for job in "jk":
        make(tmp_path, job, "a")
    output = folders(trainer("j", tmp_path), trainer("k", tmp_path), trainer("nowhere", None))
    active = [finding("j"), finding("k", 3), finding("", 5)]
    output.write(snapshot(1.0, ["j", "k", "nowhere"], active), [], ())
    output.close()

    host = HostFolder(tmp_path / "aidiag-j/a")
    assert {"r/j/rank-0", "r//rank-5"} == {found.id for found in report(host).findings}
    assert [(0, "a", 7)] == [(row.rank, row.host, row.steps) for row in report(host).ranks]
    (evidence,) = report(host).findings[0].evidence
    assert evidence.line is not None
    assert evidence.text in host.evidence.read_text().splitlines()[evidence.line - 1]
    assert ["aidiag-j", "aidiag-k"] == sorted(path.name for path in tmp_path.iterdir())
    assert json.loads(host.state.read_bytes())["ended"]
    assert (tmp_path / "aidiag-j/report.json").exists()


def test_what_has_passed_and_what_an_earlier_daemon_found_counts(tmp_path: Path) -> None:
    """The report keeps findings that are cleared, over a restart of the daemon, too."""
    make(tmp_path, "j", "a")
    first = folders(trainer("j", tmp_path))
    first.write(snapshot(1.0, ["j"], [finding("j", 1)]), [], ())
    first.close()
    second = folders(trainer("j", tmp_path))
    second.write(snapshot(2.0, ["j"], [finding("j", 2)]), [], ())
    second.write(snapshot(3.0, ["j"]), [Change("cleared", finding("j", 2))], ())
    second.write(snapshot(4.0, []), [], ())

    host = HostFolder(tmp_path / "aidiag-j/a")
    assert {"r/j/rank-1", "r/j/rank-2"} == {found.id for found in report(host).findings}
    assert ["raised", "raised", "cleared"] == [
        json.loads(line)["event"] for line in host.findings.read_text().splitlines()
    ]


def test_what_an_earlier_job_left_is_set_aside(tmp_path: Path) -> None:
    """Files older than the job's first rank are of an earlier one; newer ones, such as NCCL's logs, stay."""
    _, host = make(tmp_path, "j", "a")
    host.findings.write_text(json.dumps({"event": "note", "unix": 1.0, "text": "old"}) + "\n")
    os.utime(host.findings, (BEGAN - 1, BEGAN - 1))
    (host.path / "nccl.a.1.log").write_text("NCCL INFO\n")
    folders(trainer("j", tmp_path)).write(snapshot(1.0, ["j"]), [], ())

    assert 1 == len(list(host.path.glob("earlier-*/findings.ndjson")))
    assert (host.path / "nccl.a.1.log").exists()
    assert () == report(host).findings


def test_a_folder_with_a_sidecar_is_left_to_it(tmp_path: Path) -> None:
    """While an `aidiag run` is at work in a folder, the daemon writes nothing there; afterwards it does."""
    _, host = make(tmp_path, "j", "a")
    run = RunFile("1", "j", "a", ("true",), "/", BEGAN, mark(os.getpid()))
    write_run(host, run)
    output = folders(trainer("j", tmp_path))
    output.write(snapshot(1.0, ["j"]), [], ())
    assert not host.report.exists()

    host.run("1").unlink()
    output.write(snapshot(2.0, ["j"]), [], ())
    assert not host.report.exists()
    output.write(snapshot(1.0 + LOOK_EVERY_SECONDS, ["j"]), [], ())
    assert host.report.exists()


def test_nothing_is_written_through_links_or_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link in the place of the folder, and a folder of another user, stay untouched."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "aidiag-j").symlink_to(tmp_path / "elsewhere")
    folders(trainer("j", tmp_path)).write(snapshot(1.0, ["j"]), [], ())
    _, host = make(tmp_path, "k", "a")
    facts = host.path.stat()
    monkeypatch.setattr(os, "geteuid", lambda: facts.st_uid + 1)
    folders(trainer("k", tmp_path)).write(snapshot(1.0, ["k"]), [], ())

    assert [] == list((tmp_path / "elsewhere").iterdir())
    assert [] == list(host.path.iterdir())


def test_a_folder_that_the_operator_names(tmp_path: Path) -> None:
    """--job-folder serves a job whose ranks tell of none."""
    job, host = make(tmp_path, "j", "a")
    folders(trainer("j", None), given=job.path).write(snapshot(1.0, ["j"]), [], ())

    assert host.report.exists()
