from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.diagnose.run.conftest import Aidiag

pytest.importorskip("torch")

TRAIN = Path(__file__).resolve().parents[2] / "jobs/train.py"
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(TRAIN))


@pytest.mark.live
def test_a_torch_job_computes_the_same(aidiag: Aidiag) -> None:
    """torchrun with two ranks: under `run` the losses are the same to the last bit."""
    aidiag.environ["OMP_NUM_THREADS"] = "1"
    bare = [*TORCHRUN, "--steps", "12", "--losses", "bare"]
    subprocess.run(bare, env=aidiag.environ, cwd=aidiag.folder, capture_output=True, check=True)
    ended = aidiag.run(*TORCHRUN, "--steps", "12", "--losses", "watched")

    assert 0 == ended.returncode
    for rank in (0, 1):
        losses = (aidiag.folder / f"bare.{rank}").read_text()
        assert 12 == losses.count("\n")
        assert losses == (aidiag.folder / f"watched.{rank}").read_text()


@pytest.mark.live
def test_a_torch_job_that_fails(aidiag: Aidiag) -> None:
    """When a rank is killed, torchrun's status is that of `run`, and its own message is in the capture."""
    aidiag.environ["OMP_NUM_THREADS"] = "1"
    ended = aidiag.run(*TORCHRUN, "--steps", "50", "--kill-at", "3", "--on-rank", "1")
    (run,) = aidiag.runs()

    assert (1, 1) == (ended.returncode, run.exit_status)
    assert b"Signal 9 (SIGKILL)" in aidiag.host.capture("stderr", run.key).read_bytes()
