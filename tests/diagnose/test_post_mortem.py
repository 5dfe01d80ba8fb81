"""`aidiag diagnose JOB-FOLDER` where hosts died before their sidecars could write a report."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from aidiag.collectors.run_files import ProcessMark, RunFile
from aidiag.diagnose.config import Config
from aidiag.diagnose.job.folder import HostFolder, JobFolder, make
from aidiag.diagnose.job.gather import gather, write_merged
from aidiag.diagnose.job.logs import logs_of
from aidiag.diagnose.job.runs import write_run
from aidiag.diagnose.post_mortem import diagnose
from aidiag.diagnose.report.model import JobFacts, Report, encode
from aidiag.diagnose.run.segments import Segments
from aidiag.rules.finding import Finding

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
NCCL = "{host}:77:77 [0] NCCL WARN Bootstrap : no socket interface found\n"
FINDING = Finding(
    "input_bound/j", "util_input_bound", "input_bound", "warning", 0.9, "Input bound", "61 %", None, None, None, (),
    "why", (),
)  # fmt: skip


def begin(out: Path, host: str, key: str, *, rank: int | None = None) -> HostFolder:
    """A host on which a run of job j began and never ended: the host died under it."""
    _, folder = make(out, "j", host)
    captures = {"stdout": f"stdout-{key}.log"}
    gone = ProcessMark(1, 1, 1, "another boot")
    write_run(folder, RunFile(key, "j", host, ("train",), "/w", 1000.0, gone, rank=rank, captures=captures))
    return folder


def say(folder: HostFolder, key: str, text: str) -> None:
    """What the command of a run printed."""
    capture = Segments(folder.capture("stdout", key))
    capture.write(text.encode())
    capture.close()


def diagnosed(folder: Path) -> Report:
    """The report on a folder."""
    return diagnose([str(folder)], Config(), "en", io.BytesIO())


def blamed(report: Report) -> set[tuple[str, tuple[int, ...], tuple[str, ...]]]:
    """The rules of a report with the ranks and hosts that they blame."""
    found = (*report.findings, *report.consequences)
    return {
        (one.rule, one.culprit.ranks if one.culprit else (), one.culprit.hosts if one.culprit else ()) for one in found
    }


def test_the_log_of_a_dead_host_is_read(tmp_path: Path) -> None:
    """A run that left nothing but its output is diagnosed from it, with its rank, its host and the job in the finding
    and evidence that stands where it says.
    """
    host = begin(tmp_path, "node-a", "5", rank=3)
    say(host, "5", "step 1\n" + OOM)

    report = diagnosed(host.path.parent)

    assert ("cuda_out_of_memory", (3,), ("node-a",)) in blamed(report)
    (finding,) = [one for one in report.findings if one.rule == "cuda_out_of_memory"]
    assert "cuda_out_of_memory/j" == finding.id
    assert [("node-a/stdout-5.log", 2)] == [(item.source, item.line) for item in finding.evidence][:1]
    assert ["host node-a"] == [gap.what for gap in report.unknown]
    assert "its logs are used" in report.unknown[0].reason


def test_a_quiet_log_of_a_dead_host_raises_nothing(tmp_path: Path) -> None:
    """The same run without a fault in its output has no finding, and the missing report is told."""
    host = begin(tmp_path, "node-a", "5", rank=3)
    say(host, "5", "step 1\nstep 2\n")

    report = diagnosed(host.path.parent)

    assert set() == blamed(report)
    assert ["host node-a"] == [gap.what for gap in report.unknown]


@pytest.mark.parametrize(("status", "found"), [(1, True), (0, False)])
def test_the_log_of_a_host_whose_part_failed_is_read_although_it_left_a_report(
    tmp_path: Path, status: int, found: bool
) -> None:
    """A job that ends at its start is over before its sidecar has seen anything: its output tells why. Where it ended
    well, what it printed on the way is no fault.
    """
    host = begin(tmp_path, "node-a", "5", rank=3)
    say(host, "5", OOM)
    host.report.write_bytes(encode(Report(job=JobFacts("j", ("node-a",), exit_status=status))))

    assert found == (("cuda_out_of_memory", (3,), ("node-a",)) in blamed(diagnosed(host.path.parent)))


def test_logs_of_dead_hosts_join_the_reports_of_the_others(tmp_path: Path) -> None:
    """One host left a report, one a broken report, one only the output of its run, one only a file of NCCL: all count,
    and of the host with the whole report the logs are not judged again.
    """
    whole = begin(tmp_path, "node-a", "5", rank=0)
    say(whole, "5", OOM)
    whole.report.write_bytes(encode(Report(job=JobFacts("j", ("node-a",)), findings=(FINDING,))))
    broken = begin(tmp_path, "node-b", "6", rank=1)
    say(broken, "6", OOM)
    broken.report.write_bytes(encode(Report(findings=(FINDING,)))[:100])
    say(begin(tmp_path, "node-c", "7", rank=2), "7", OOM)
    _, nccl = make(tmp_path, "j", "node-d")
    (nccl.path / "nccl.node-d.77.log").write_text(NCCL.format(host="node-d"))

    report = diagnosed(whole.path.parent)

    assert ("cuda_out_of_memory", (1, 2), ("node-b", "node-c")) in blamed(report)
    assert ("input_bound", (), ()) in blamed(report)
    assert any("node-d/nccl.node-d.77.log" == item.source for one in report.findings for item in one.evidence)
    assert {"host node-b", "host node-c", "host node-d"} == {gap.what for gap in report.unknown}


def test_merging_at_the_end_of_a_run_reads_no_logs(tmp_path: Path) -> None:
    """The first of a thousand hosts that finish must not read the logs of the others, which still run."""
    host = begin(tmp_path, "node-a", "5", rank=3)
    say(host, "5", OOM)

    report = write_merged(JobFolder(host.path.parent), {})

    assert set() == blamed(report)
    assert "its logs" not in report.unknown[0].reason
    assert report == gather(JobFolder(host.path.parent), {})


def test_later_parts_of_an_output_are_of_the_same_run(tmp_path: Path) -> None:
    """Each part of a long capture belongs to the rank of its run; parts come in the order in which they were written."""
    host = begin(tmp_path, "node-a", "5", rank=3)
    capture = Segments(host.capture("stdout", "5"), head_bytes=100, part_bytes=100, parts=4)
    for number in range(13):
        capture.write(f"step {number} of a long training\n".encode())
    capture.close()

    logs = logs_of(host)

    assert 5 == len(logs)
    assert {(3, "node-a")} == {(log.owner.rank, log.owner.host) for log in logs if log.owner}
    assert host.capture("stdout", "5") == logs[0].path
    numbers = [int(log.path.name.split(".")[1]) for log in logs[1:]]
    assert list(range(numbers[0], numbers[0] + 4)) == numbers
    assert len(str(numbers[0])) < len(str(numbers[-1])), "the test wants a part 10 behind a part 9"


@pytest.mark.parametrize("name", ["stdout-5.log", "nccl.node-a.7.log"])
def test_links_among_the_logs_are_left_out(tmp_path: Path, name: str) -> None:
    """A link that a job put where a log should be leads to no other file."""
    host = begin(tmp_path, "node-a", "5", rank=3)
    (tmp_path / "elsewhere").write_text(OOM)
    (host.path / name).symlink_to(tmp_path / "elsewhere")

    assert [] == logs_of(host)
    assert set() == blamed(diagnosed(host.path.parent))
