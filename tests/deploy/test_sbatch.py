"""deploy/slurm/job.sbatch on a real single-node Slurm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.deploy import slurm
from tests.real_parts import missing, require

pytestmark = pytest.mark.live

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "deploy" / "slurm" / "job.sbatch"
JOB_SECONDS = 60.0

STAND_IN = """\
#!/usr/bin/env python3
# Stands in for aidiag: notes how it was called, then becomes the program.
import json, os, sys
verb, option, out, dashes, *command = sys.argv[1:]
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
note = {"verb": verb, "option": option, "dashes": dashes, "environment": {name: os.environ[name] for name in names}}
os.makedirs(out, exist_ok=True)
with open(os.path.join(out, f"called-{os.environ['RANK']}.json"), "w") as file:
    json.dump(note, file)
os.execvp(command[0], command)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Mapping[str, str]]:
    """The environment in which sbatch talks to the test's own Slurm."""
    require("sbatch")
    if os.geteuid() != 0:
        missing("slurmd runs as root only")
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
    try:
        with slurm.cluster(folder, require) as environment:
            yield environment
    finally:
        slurm.remove(folder)


REAL = f"""\
#!/bin/sh
PYTHONPATH={ROOT} exec {sys.executable} -m aidiag "$@"
"""


def on_path(folder: Path, program: str) -> Path:
    """A folder for PATH in which `aidiag` is this program."""
    folder.mkdir()
    script = folder / "aidiag"
    script.write_text(program)
    script.chmod(0o755)
    return folder


@dataclass(frozen=True)
class Cluster:
    """Submits the script to the test's Slurm from a folder."""

    environment: Mapping[str, str]
    folder: Path

    def __call__(self, *command: str, aidiag: str = REAL) -> str:
        """Run the script with a command and an `aidiag`; gives the job's output, with its state in the last line."""
        environment = {**self.environment, "PATH": f"{on_path(self.folder / 'bin', aidiag)}:{self.environment['PATH']}"}

        def call(*words: str) -> str:
            done = subprocess.run(words, cwd=self.folder, env=environment, check=True, capture_output=True, text=True)
            return done.stdout

        job = call("sbatch", "--parsable", str(SCRIPT), *command).strip()
        end = time.monotonic() + JOB_SECONDS
        while True:
            shown = call("scontrol", "--oneliner", "show", "job", job)
            fields = dict(word.partition("=")[::2] for word in shown.split())
            if fields["JobState"] not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING"):
                output = (self.folder / f"train-{job}.out").read_text()
                return f"{output}{fields['JobState']} {fields['ExitCode']}\n"
            assert time.monotonic() < end, shown
            time.sleep(0.2)


@pytest.fixture
def submit(cluster: Mapping[str, str], tmp_path: Path) -> Cluster:
    """Submits jobs from the test's own folder."""
    return Cluster(cluster, tmp_path)


def test_every_rank_runs_under_aidiag(submit: Cluster, tmp_path: Path) -> None:
    """Two tasks become ranks 0 and 1 of one world of two; both are in one job folder, and one sidecar watches them."""
    output = submit("sh", "-c", "echo rank $RANK of $WORLD_SIZE is $LOCAL_RANK here; sleep 3")

    assert {"rank 0 of 2 is 0 here", "rank 1 of 2 is 1 here"} <= set(output.splitlines())
    assert "COMPLETED 0:0" == output.splitlines()[-1]
    (host_folder,) = (path for path in tmp_path.glob("aidiag-*/*") if path.is_dir())
    runs = [json.loads(path.read_text()) for path in host_folder.glob("run-*.json")]
    assert [0, 0] == [run["exit_status"] for run in runs]
    assert (host_folder / "sidecar.json").is_file()


def test_aidiag_is_called_for_every_rank(submit: Cluster, tmp_path: Path) -> None:
    """Each rank is started by `aidiag run` with the one shared --out, and all have one address to meet at."""
    submit("true", aidiag=STAND_IN)

    calls = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("called-*.json"))]
    assert [("run", "--out", "--")] * 2 == [(call["verb"], call["option"], call["dashes"]) for call in calls]
    assert ["0", "1"] == [call["environment"]["RANK"] for call in calls]
    assert 1 == len({call["environment"]["MASTER_ADDR"] + call["environment"]["MASTER_PORT"] for call in calls})


def test_words_reach_the_program_unchanged(submit: Cluster) -> None:
    """Arguments with spaces, quotes and dollar signs come through sbatch, srun and the inner shell as they are."""
    output = submit("printf", "<%s>\n", "two words", "it's", "$HOME", '"quoted"')

    assert {"<two words>", "<it's>", "<$HOME>", '<"quoted">'} <= set(output.splitlines())


def test_a_failing_rank_fails_the_job(submit: Cluster) -> None:
    """A rank that ends with an error ends the job as failed, and the other rank is not waited for."""
    output = submit("sh", "-c", 'if [ "$RANK" = 1 ]; then exit 7; fi; sleep 600')

    assert "task 1: Exited with exit code 7" in output
    assert output.splitlines()[-1].startswith("FAILED ")
