"""`aidiag diagnose --slurm` on a real single-node Slurm."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.deploy import slurm
from tests.real_parts import missing, require

pytestmark = pytest.mark.live

ROOT = Path(__file__).resolve().parents[3]
JOB_SECONDS = 90.0

SCRIPT = """\
#!/bin/bash
#SBATCH --output=logs/%j-out.log --error=logs/%j-err.log
echo step 1
srun -K1 -n 2 --output=logs/%j-%t.log bash -c 'echo begin; if [ $SLURM_PROCID = 1 ]; then sleep 1; kill -9 $$; fi; sleep 60'
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Mapping[str, str]]:
    """The environment in which Slurm's tools talk to the test's own cluster."""
    require("sbatch")
    if os.geteuid() != 0:
        missing("slurmd runs as root only")
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
    try:
        with slurm.cluster(folder, require) as environment:
            yield environment
    finally:
        slurm.remove(folder)


def submitted(cluster: Mapping[str, str], folder: Path, script: str, *options: str) -> str:
    """The number of a job that has ended."""
    (folder / "logs").mkdir(exist_ok=True)
    (folder / "job.sbatch").write_text(script)
    command = ["sbatch", "--parsable", *options, "job.sbatch"]
    job = subprocess.run(command, cwd=folder, env=cluster, capture_output=True, text=True, check=True).stdout.strip()
    end = time.monotonic() + JOB_SECONDS
    while True:
        answer = subprocess.run(
            ["scontrol", "show", "job", job], env=cluster, capture_output=True, text=True, check=True
        )
        if (
            "JobState=RUNNING" not in answer.stdout
            and "PENDING" not in answer.stdout
            and "COMPLETING" not in answer.stdout
        ):
            return job
        assert time.monotonic() < end, answer.stdout
        time.sleep(0.2)


def diagnosed(cluster: Mapping[str, str], folder: Path, *arguments: str) -> dict[str, Any]:
    """The report, each piece of whose evidence stands where it says."""
    command = [sys.executable, "-m", "aidiag", "diagnose", "--format", "json", "--out", "asked", *arguments]
    environ = {**cluster, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    report: dict[str, Any] = json.loads(ended.stdout)
    for finding in report["findings"] + report["consequences"]:
        for one in finding["evidence"]:
            assert one["text"] in (folder / one["source"]).read_text().splitlines()[one["line"] - 1]
    return report


def test_a_job_whose_task_is_killed(cluster: Mapping[str, str], tmp_path: Path) -> None:
    """Its record, its output and what its tasks wrote under its number are read; a healthy job has no alarm."""
    first = submitted(cluster, tmp_path, "#!/bin/bash\n#SBATCH --output=logs/%j-out.log\necho step 1\n")
    healthy = diagnosed(cluster, tmp_path, "--slurm", first)
    assert healthy["findings"] == []
    (tmp_path / "asked").rename(tmp_path / "before")

    job = submitted(cluster, tmp_path, SCRIPT, "--ntasks=2")
    report = diagnosed(cluster, tmp_path, "--slurm", job)

    record = (tmp_path / "asked" / f"slurm-{job}" / "scontrol-job.txt").read_text()
    assert "JobState=FAILED" in record
    assert (
        f"NodeName={socket.gethostname().split('.')[0]}"
        in (tmp_path / "asked" / f"slurm-{job}" / "scontrol-nodes.txt").read_text()
    )
    gaps = {gap["what"]: gap["reason"] for gap in report["unknown"]}
    assert "disabled" in gaps["sacct"]
    assert "Killed" in (tmp_path / "logs" / f"{job}-err.log").read_text()


def test_a_job_that_was_cancelled(cluster: Mapping[str, str], tmp_path: Path) -> None:
    """The record says so, and an unknown job is an error."""
    script = "#!/bin/bash\n#SBATCH --output=logs/%j-out.log\nsleep 600\n"
    (tmp_path / "logs").mkdir()
    (tmp_path / "job.sbatch").write_text(script)
    command = ["sbatch", "--parsable", "job.sbatch"]
    job = subprocess.run(command, cwd=tmp_path, env=cluster, capture_output=True, text=True, check=True).stdout.strip()
    subprocess.run(["scancel", job], env=cluster, check=True)
    time.sleep(2)
    diagnosed(cluster, tmp_path, "--slurm", job)
    assert "JobState=CANCELLED" in (tmp_path / "asked" / f"slurm-{job}" / "scontrol-job.txt").read_text()
    command = [sys.executable, "-m", "aidiag", "diagnose", "--slurm", "999999"]
    ended = subprocess.run(
        command, cwd=tmp_path, env={**cluster, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 3
    assert "nothing is known of job 999999" in ended.stderr
