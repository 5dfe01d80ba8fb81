"""`aidiag diagnose --slurm`, on answers as Slurm gives them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

OOM = "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.15 GiB of which 815.06 MiB is free. Including non-PyTorch memory, this process has 78.31 GiB memory in use. Of the allocated memory 77.20 GiB is allocated by PyTorch, and 0.29 GiB is reserved by PyTorch but unallocated."

JOB = """\
JobId=4711 JobName=train me
   UserId=ann(1000) GroupId=ann(1000) MCS_label=N/A
   Priority=4294901759 Nice=0 Account=(null) QOS=(null)
   JobState={state} Reason={reason} Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=1:0
   RunTime=00:00:04 TimeLimit=00:10:00 TimeMin=N/A
   NodeList=node-[a-b]
   BatchHost=node-a
   Command={folder}/job.sbatch
   WorkDir={folder}
   StdErr={folder}/logs/job 4711.err
   StdIn=/dev/null
   StdOut={folder}/logs/job 4711.out

"""
NODES = """\
NodeName=node-a Arch=x86_64 CoresPerSocket=1 CPUAlloc=0 State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=p
NodeName=node-b Arch=x86_64 CoresPerSocket=1 CPUAlloc=0 State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=p {reason}
"""
HEADER = (
    "State|ExitCode|JobID|JobName|DerivedExitCode|Reason|Start|End|Elapsed|Timelimit|NodeList|ReqMem|MaxRSS|WorkDir"
)
NO_ACCOUNTING = (1, "", "Slurm accounting storage is disabled\n")
UNKNOWN = (1, "", "slurm_load_jobs error: Invalid job id specified\n")


def record(folder: Path, state: str = "FAILED", reason: str = "NonZeroExitCode") -> str:
    """The answer of scontrol on a job."""
    return JOB.format(folder=folder, state=state, reason=reason)


def nodes(state: str = "IDLE", reason: str = "") -> str:
    """The answer of scontrol on its nodes."""
    return NODES.format(state=state, reason=reason)


def places(report: dict[str, Any]) -> list[tuple[str, int]]:
    """Where all evidence stands, each of which is there."""
    evidence = [one for finding in report["findings"] + report["consequences"] for one in finding["evidence"]]
    for one in evidence:
        assert one["text"] in Path(one["source"]).read_text().splitlines()[one["line"] - 1]
    return [(one["source"], one["line"]) for one in evidence]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Where the job left its output."""
    folder = tmp_path / "work" / "logs"
    folder.mkdir()
    (folder / "job 4711.out").write_text(f"step 1\n{OOM}\n")
    (folder / "job 4711.err").write_text("srun: error: node-b: task 1: Exited with exit code 1\n")
    return folder


def test_a_failed_job_is_diagnosed_by_its_number(
    tools: Callable[..., Any], run: Callable[..., Any], logs: Path
) -> None:
    """Its logs are found where Slurm says, the answers of its tools become files, and evidence stands in both."""
    (logs / "4711-1.log.gz").write_bytes(b"")
    (logs / "4712.log").write_text(OOM)
    (logs / "model-4711.pt").write_text(OOM)
    calls = tools(
        scontrol={"show job": (0, record(logs.parent), ""), "show node": (0, nodes("DOWN*", "Reason=Not responding [slurm@2026-12-01T03:58:11]"), "")},
        sacct={"": (0, f"{HEADER}|StdOut|StdErr\nFAILED|1:0|4711.0|python|||x|y|z||node-a||||||\n", "")},
    )  # fmt: skip

    status, out, error = run("diagnose", "--slurm", "4711.0", "--out", "asked", "--format", "json")

    assert status == 0
    report = json.loads(out)
    assert {"oom_capacity", "node_down"} == {finding["cause"] for finding in report["findings"]}
    found = places(report)
    assert (str(logs / "job 4711.out"), 2) in found
    assert ("asked/slurm-4711/scontrol-nodes.txt", 3) in found
    assert Path("asked/slurm-4711/scontrol-job.txt").read_text().startswith("$ scontrol --details show job 4711\nJobId")
    assert error == "aidiag: what was fetched lies in asked\n"
    assert [call.split(" ")[0] for call in calls()] == ["scontrol", "sacct", "scontrol"]
    assert calls()[2].endswith("show node node-[a-b]")


@pytest.mark.parametrize(
    ("state", "line", "kind"),
    [
        ("TIMEOUT", "TIMEOUT|0:0|4711|train", "job_cancelled"),
        ("OUT_OF_MEMORY", "OUT_OF_MEMORY|0:125|4711.batch|batch", "task_out_of_memory"),
        ("NODE_FAIL", "NODE_FAIL|0:0|4711_3|train", "job_cancelled"),
    ],
)
def test_how_slurm_saw_it_end_is_an_event(tmp_path: Path, state: str, line: str, kind: str) -> None:
    """In the record of the job as in that of accounting."""
    from aidiag.collectors.logs import read_log

    path = tmp_path / "x.txt"
    path.write_text(record(tmp_path, state) + f"{HEADER}\n{line}|0:0|None|x|y|z|0|node-a|4G||/tmp\n")
    assert [(event.kind, event.place.line) for event in read_log(path) if event.place] == [(kind, 4), (kind, 16)]


def test_a_healthy_job_is_healthy(tools: Callable[..., Any], run: Callable[..., Any], logs: Path) -> None:
    """The twin: nothing that Slurm says of a job that goes well is a fault."""
    for path in logs.iterdir():
        path.write_text("step 1\n")
    tools(
        scontrol={"show job": (0, record(logs.parent, "COMPLETED", "None"), ""), "show node": (0, nodes(), "")},
        sacct={"": (0, f"{HEADER}\nCOMPLETED|0:0|4711|train|||x|y|z||node-a|||{logs}\n", "")},
    )
    status, out, _ = run("diagnose", "--slurm", "4711", "--out", "asked", "--format", "json", "--exit-code")
    assert status == 0
    report = json.loads(out)
    assert report["findings"] == report["consequences"] == []


def test_an_old_slurm_and_no_accounting_are_no_trouble(
    tools: Callable[..., Any], run: Callable[..., Any], logs: Path
) -> None:
    """A sacct that does not know the fields of newer ones is asked again; what it cannot say is told."""
    calls = tools(
        scontrol={"show job": (0, record(logs.parent), ""), "show node": (1, "", "slurm_load_node error: Timeout\n")},
        sacct={"StdOut": (1, "", "sacct: error: Invalid field requested: \"StdOut\"\n"), "": NO_ACCOUNTING},
    )  # fmt: skip
    status, out, _ = run("diagnose", "--slurm", "4711", "--format", "json", "--out", "new")
    assert status == 0
    report = json.loads(out)
    assert ["oom_capacity"] == [finding["cause"] for finding in report["findings"]]
    gaps = {gap["what"]: gap["reason"] for gap in report["unknown"]}
    assert "storage is disabled" in gaps["sacct"]
    assert "Timeout" in gaps["the nodes of the job"]
    assert 2 == len([call for call in calls() if call.startswith("sacct")])


def test_a_job_that_slurm_forgot_is_known_to_accounting(
    tools: Callable[..., Any], run: Callable[..., Any], logs: Path
) -> None:
    """Where its output lies comes from sacct, too."""
    row = f"FAILED|1:0|4711|train|1:0|None|x|y|z|0|node-b|4G||{logs.parent}|{logs}/job 4711.out|"
    tools(
        scontrol={"show job": UNKNOWN, "show node": (0, nodes(), "")},
        sacct={"": (0, f"{HEADER}|StdOut|StdErr\n{row}\n", "")},
    )
    status, out, _ = run("diagnose", "--slurm", "4711", "--format", "json", "--out", "new")
    assert status == 0
    assert (str(logs / "job 4711.out"), 2) in places(json.loads(out))


def test_output_on_another_host_is_told(tools: Callable[..., Any], run: Callable[..., Any]) -> None:
    """With where it must be, instead of silence; links of the job's owner are not followed."""
    folder = Path.cwd()
    (folder / "logs").mkdir()
    (folder / "logs" / "job 4711.err").symlink_to("/etc/passwd")
    tools(scontrol={"show job": (0, record(folder), ""), "show node": (0, nodes(), "")}, sacct={"": NO_ACCOUNTING})
    _, out, _ = run("diagnose", "--slurm", "4711", "--format", "json", "--out", "new")
    gaps = {gap["what"]: (gap["reason"], gap["remedy"]) for gap in json.loads(out)["unknown"]}
    assert gaps[f"{folder}/logs/job 4711.out"] == (
        "the StdOut of the job is not on this host",
        "copy it from node-a, and give it as a path",
    )
    assert "is a link" in gaps[f"{folder}/logs/job 4711.err"][0]


def test_failures_are_one_clear_line(tools: Callable[..., Any], run: Callable[..., Any]) -> None:
    """No tools, no such job, no job id, a folder that is there already; and nothing is left behind."""
    status, _, error = run("diagnose", "--slurm", "4711", "--out", "new")
    assert status == 3
    assert "neither scontrol nor sacct is installed here; run it on a login node" in error
    assert not Path("new").exists()
    tools(scontrol={"": UNKNOWN}, sacct={"": (0, f"{HEADER}\n", "")})
    status, _, error = run("diagnose", "--slurm", "4711", "--out", "new")
    assert status == 3
    assert "nothing is known of job 4711: scontrol: slurm_load_jobs error: Invalid job id specified" in error
    for job in ("train", "4711; reboot", "--help", "../4711", ""):
        status, _, error = run("diagnose", f"--slurm={job}", "--out", "other")
        assert status == 3
        assert "no Slurm job id" in error
        assert 1 == len(error.splitlines())
    status, _, error = run("diagnose", "--slurm", "4711", "--out", ".")
    assert status == 3
    assert "exists already" in error
