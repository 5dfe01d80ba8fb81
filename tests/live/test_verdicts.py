"""Real DDP jobs of an unmodified script under `aidiag run`: the planted fault is named, and nothing but it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.deploy import slurm
from tests.live.hosts import ROOT, aidiag, base_environ
from tests.real_parts import missing, require

pytest.importorskip("torch")
pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

TRAIN = str(ROOT / "tests" / "jobs" / "train.py")


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def torchrun(*options: str) -> list[str]:
    """A two-rank job by torchrun."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}"]
    return [*launcher, TRAIN, *options]


def watched(
    folder: Path, command: list[str], environ: Mapping[str, str] | None = None
) -> tuple[int, dict[str, Any], str]:
    """Run a job under `aidiag run`: its exit status, the report, and what was printed."""
    job = f"t{os.getpid()}"
    run = subprocess.run(
        aidiag("run", "--out", str(folder), "--report", "report.json", "--", *command),
        env={**base_environ(), "AIDIAG_JOB_ID": job, **(environ or {})},
        cwd=folder, capture_output=True, text=True, errors="replace", timeout=280, check=False,
    )  # fmt: skip
    printed = run.stdout + run.stderr
    assert (folder / "report.json").exists(), printed[-4000:]
    return run.returncode, json.loads((folder / "report.json").read_text()), printed


def alarms(report: Mapping[str, Any]) -> list[tuple[str, list[int]]]:
    """Cause and ranks of each finding that counts as an alarm."""
    return [
        (finding["cause"], (finding["culprit"] or {}).get("ranks", []))
        for finding in report["findings"]
        if finding["severity"] != "info"
    ]


@pytest.mark.parametrize("turn", [1, 2, 3])
def test_healthy_job_is_left_alone(tmp_path: Path, turn: int) -> None:
    """Three healthy runs in a row: no warning, all ranks attached, exit status 0."""
    status, report, printed = watched(tmp_path, torchrun("--steps", "250", "--workers", "1"))

    assert (0, []) == (status, alarms(report)), printed[-4000:]
    assert [250, 250] == [row["steps"] for row in report["ranks"]]
    assert "warning" not in printed.lower().replace("warnings", "")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--steps", "130", "--workers", "1", "--slow-loader", "3"), [("util_input_bound", [0, 1])]),
        (("--steps", "130", "--workers", "1", "--slow-loader", "3", "--on-rank", "1"), [("straggler_input", [1])]),
        (("--steps", "200", "--workers", "1", "--straggle", "6", "--on-rank", "0"), [("straggler", [0])]),
        (("--steps", "200", "--workers", "1", "--kill-at", "80", "--on-rank", "1"), [("rank_killed", [1])]),
    ],
    ids=["input-bound", "straggler-input", "straggler", "killed"],
)
def test_planted_fault_is_named_and_nothing_else(
    tmp_path: Path, options: tuple[str, ...], expected: list[tuple[str, list[int]]]
) -> None:
    """The twin of the healthy run with one planted fault: exactly that is found."""
    _, report, printed = watched(tmp_path, torchrun(*options))

    assert expected == alarms(report), printed[-6000:]
    assert report["findings"][0]["remedy"]
    assert report["findings"][0]["evidence"]


def test_connection_closed_is_a_consequence_of_the_kill(tmp_path: Path) -> None:
    """Ranks that torchrun does not end itself lose their peer: that is told as a consequence, not as a cause."""
    port = str(free_port())
    script = (
        f'for r in 0 1; do RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT={port} '
        f'{sys.executable} {TRAIN} --steps 200 --workers 1 --kill-at 80 --on-rank 1 & done; wait'
    )  # fmt: skip
    _, report, printed = watched(tmp_path, ["bash", "-c", script])

    assert [("rank_killed", [1])] == alarms(report), printed[-6000:]
    victims = [finding for finding in report["consequences"] if finding["rule"] == "peer_connection_closed"]
    assert victims, report["consequences"]
    assert {report["findings"][0]["id"]} == {finding["explained_by"] for finding in victims}


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """The environment in which srun talks to the test's own Slurm."""
    require("srun")
    if os.geteuid() != 0:
        missing("slurmd runs as root only")
    folder = Path(f"/tmp/slurm-live-{os.getpid()}")
    folder.mkdir()
    try:
        with slurm.cluster(folder, require) as environment:
            yield environment
    finally:
        slurm.remove(folder)


def test_srun_has_one_sidecar_for_all_tasks(cluster: Mapping[str, str], tmp_path: Path) -> None:
    """Two tasks of srun, each under `aidiag run`: one sidecar, no quarrel over the port, and the slow loader named."""
    inner = aidiag("run", "--out", str(tmp_path), "--", sys.executable, TRAIN, "--steps", "130", "--workers", "1")
    run = subprocess.run(
        ["srun", "--ntasks=2", *inner, "--slow-loader", "3", "--on-rank", "1"],
        env={**base_environ(), "SLURM_CONF": cluster["SLURM_CONF"], "MASTER_PORT": str(free_port())},
        cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=280, check=False,
    )  # fmt: skip
    (folder,) = tmp_path.glob("aidiag-*")
    report = json.loads((folder / "report.json").read_text())

    assert 0 == run.returncode, run.stderr[-4000:]
    assert [("straggler_input", [1])] == alarms(report), run.stderr[-6000:]
    assert 2 == len(list(folder.glob("*/run-*.json")))
    assert 1 == run.stderr.count("aidiag: watching job")
