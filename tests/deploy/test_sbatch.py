"""deploy/slurm/job.sbatch on a real single-node Slurm."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.deploy import slurm
from tests.real_parts import missing, require

pytestmark = pytest.mark.live

SCRIPT = Path(__file__).resolve().parents[2] / "deploy" / "slurm" / "job.sbatch"
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


@pytest.fixture
def aidiag(tmp_path: Path) -> Path:
    """A folder for PATH in which `aidiag` is found: the stand-in, which the real program can replace here."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "aidiag"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    return folder


Submit = Callable[..., str]


@pytest.fixture
def submit(cluster: Mapping[str, str], aidiag: Path, tmp_path: Path) -> Submit:
    """Submit the script with a command; gives the job's output once it has ended, and its state in its last line."""

    def run(*command: str) -> str:
        environment = {**cluster, "PATH": f"{aidiag}:{cluster['PATH']}"}

        def call(*words: str) -> str:
            done = subprocess.run(words, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
            return done.stdout

        job = call("sbatch", "--parsable", str(SCRIPT), *command).strip()
        end = time.monotonic() + JOB_SECONDS
        while True:
            shown = call("scontrol", "--oneliner", "show", "job", job)
            fields = dict(word.partition("=")[::2] for word in shown.split())
            if fields["JobState"] not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING"):
                return f"{(tmp_path / f'train-{job}.out').read_text()}{fields['JobState']} {fields['ExitCode']}\n"
            assert time.monotonic() < end, shown
            time.sleep(0.2)

    return run


def test_every_rank_runs(submit: Submit) -> None:
    """Two tasks become ranks 0 and 1 of one world of two."""
    output = submit("sh", "-c", "echo rank $RANK of $WORLD_SIZE is $LOCAL_RANK here")

    assert {"rank 0 of 2 is 0 here", "rank 1 of 2 is 1 here"} <= set(output.splitlines())
    assert "COMPLETED 0:0" == output.splitlines()[-1]


def test_every_rank_is_under_aidiag(submit: Submit, tmp_path: Path) -> None:
    """Each rank is started by `aidiag run` with the one shared --out, and all have one address to meet at."""
    submit("true")

    calls = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("called-*.json"))]
    assert [("run", "--out", "--")] * 2 == [(call["verb"], call["option"], call["dashes"]) for call in calls]
    assert ["0", "1"] == [call["environment"]["RANK"] for call in calls]
    assert 1 == len({call["environment"]["MASTER_ADDR"] + call["environment"]["MASTER_PORT"] for call in calls})


def test_words_reach_the_program_unchanged(submit: Submit) -> None:
    """Arguments with spaces, quotes and dollar signs come through sbatch, srun and the inner shell as they are."""
    output = submit("printf", "<%s>\n", "two words", "it's", "$HOME", '"quoted"')

    assert {"<two words>", "<it's>", "<$HOME>", '<"quoted">'} <= set(output.splitlines())


def test_a_failing_rank_fails_the_job(submit: Submit) -> None:
    """A rank that ends with an error ends the job as failed, and the other rank is not waited for."""
    output = submit("sh", "-c", 'if [ "$RANK" = 1 ]; then exit 7; fi; sleep 600')

    assert "task 1: Exited with exit code 7" in output
    assert output.splitlines()[-1].startswith("FAILED ")
