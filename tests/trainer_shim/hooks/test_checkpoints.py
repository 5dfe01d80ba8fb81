"""Checkpoints are a phase of their own."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

import aidiag.trainer_shim as shim

PAUSE_SECONDS = 0.02


class Slow(io.BytesIO):
    """A file on a slow disk."""

    def write(self, data: Any) -> int:
        """Take a while."""
        time.sleep(PAUSE_SECONDS)
        return super().write(data)


def train(steps: int = 3) -> nn.Module:
    """A few steps."""
    module = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    for _ in range(steps):
        module(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    return module


def test_saving_is_a_checkpoint(trainer: Any, tmp_path: Path) -> None:
    """torch.save is charged to the checkpoint phase, within a declared one only once, and works as ever."""
    module = train()
    torch.save(module.state_dict(), Slow())
    spent = trainer.record().state.phase_seconds["checkpoint"]
    assert spent >= PAUSE_SECONDS
    assert "other" == trainer.record().state.phase
    with shim.phase("checkpoint"):
        torch.save(module.state_dict(), tmp_path / "m.pt")
        time.sleep(PAUSE_SECONDS)
    record = trainer.record()

    assert record.state.phase_seconds["checkpoint"] >= spent + PAUSE_SECONDS
    assert set(module.state_dict()) == set(torch.load(tmp_path / "m.pt"))


def test_a_distributed_checkpoint(trainer: Any, tmp_path: Path) -> None:
    """torch.distributed.checkpoint.save is a checkpoint, also when it was imported after we attached."""
    import torch.distributed.checkpoint as dcp

    module = train(3)
    trainer.session._slow()
    dcp.save({"model": module.state_dict()}, checkpoint_id=str(tmp_path / "dcp"), no_dist=True)

    assert trainer.record().state.phase_seconds["checkpoint"] > 0
    assert (tmp_path / "dcp" / ".metadata").exists()


def test_a_checkpoint_that_fails(trainer: Any) -> None:
    """An error while saving reaches the trainer, and the phase ends with it."""
    train(1)
    try:
        torch.save({}, "/no/such/folder/m.pt")
    except (RuntimeError, OSError):
        failed = True

    assert failed
    assert "other" == trainer.record().state.phase
