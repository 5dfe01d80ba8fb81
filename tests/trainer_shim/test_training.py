"""Real training under watch: nothing about it changes."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.live

PROGRAM = Path(__file__).parent / "programs" / "train.py"


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def train(injected: Any, method: str, *launcher: str, watched: bool = True) -> list[dict[str, Any]]:
    """Run the training script; gives what each rank printed."""
    injected.path = injected.path[:1] if watched else []
    command = [*(launcher or [sys.executable]), str(PROGRAM), method]
    done = subprocess.run(
        command, env=injected.env(), capture_output=True, text=True, timeout=200, check=True, cwd=PROGRAM.parent
    )
    assert "aidiag" not in done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_training_is_the_same(injected: Any, method: str) -> None:
    """Losses to the bit, signal handlers, threads and exit handlers are those of an unwatched run."""
    (watched,) = train(injected, method)
    (record,) = injected.records()
    (alone,) = train(injected, method, watched=False)

    assert alone == watched
    assert (12, 0, 0) == (record.state.steps, record.state.hook_errors, len(record.notes))
    assert ["training", "evaluation"] == [loader.role for loader in record.loaders]
    assert 1 == len(record.loaders[0].worker_pids)
    assert {"data_wait", "forward", "backward", "optimizer", "checkpoint", "evaluation", "other"} == set(
        record.state.phase_seconds
    )


def test_two_ranks(injected: Any) -> None:
    """Under torchrun the ranks attach and the launcher does not; waiting for the other rank is communication."""
    launcher = [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}", "--no-python",
        sys.executable,
    ]  # fmt: skip
    watched = train(injected, "fork", *launcher)
    records = injected.records()
    alone = train(injected, "fork", *launcher, watched=False)

    assert sorted(map(json.dumps, alone)) == sorted(map(json.dumps, watched))
    assert [0, 1] == sorted(record.identity.rank for record in records)
    for record in records:
        assert ("torchrun", 2, 2, 0) == (
            record.identity.launcher,
            record.identity.world_size,
            record.identity.local_world_size,
            record.identity.node_rank,
        )
        assert (12, 0) == (record.state.steps, record.state.hook_errors)
        assert record.state.phase_seconds["comm"] > 0
