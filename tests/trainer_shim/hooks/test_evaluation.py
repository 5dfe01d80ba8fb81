"""Evaluation is not training: its batches and forwards are kept apart."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import aidiag.trainer_shim as shim

PAUSE_SECONDS = 0.01


class Loop:
    """A model with a loader for training and one for validation."""

    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.training = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
        self.validation = DataLoader(TensorDataset(torch.randn(6, 4)), batch_size=2)

    def train(self) -> None:
        """One epoch."""
        for (batch,) in self.training:
            self.model(batch).sum().backward()
            self.optimizer.step()

    def validate(self) -> None:
        """One look at the validation data."""
        for (batch,) in self.validation:
            self.model(batch)
            time.sleep(PAUSE_SECONDS)


@pytest.fixture
def loop(trainer: Any) -> Loop:
    """A loop after its first epoch."""
    made = Loop()
    made.train()
    return made


def roles(trainer: Any) -> list[str]:
    """What the loaders are for."""
    return [loader.role for loader in trainer.record().loaders]


def test_evaluation_mode_is_evaluation(trainer: Any, loop: Loop) -> None:
    """From eval() to train() all time is evaluation, and the validation loader is charged to no step."""
    waited = trainer.record().state.phase_seconds["data_wait"]
    loop.model.eval()
    with torch.no_grad():
        loop.validate()
    record = trainer.record()
    assert "evaluation" == record.state.phase
    assert waited == record.state.phase_seconds["data_wait"]
    assert 4 == record.state.batches
    assert 3 * PAUSE_SECONDS <= record.state.phase_seconds["evaluation"]

    loop.model.train()
    loop.train()
    record = trainer.record()
    assert ["training", "evaluation"] == roles(trainer)
    assert "evaluation" not in record.steps[-1].phases
    assert 0 == record.loaders[1].wait_seconds < record.loaders[1].evaluation_wait_seconds
    assert 8 == record.state.batches


def test_no_gradients_is_evaluation(trainer: Any, loop: Loop) -> None:
    """Forwards without gradients are evaluation in training mode, too, and tell what their loader is for."""
    with torch.no_grad():
        loop.validate()
    loop.train()
    record = trainer.record()

    assert ["training", "evaluation"] == roles(trainer)
    assert record.state.phase_seconds["evaluation"] > 0
    assert 8 == record.state.batches


def test_training_in_evaluation_mode_is_training(trainer: Any, loop: Loop) -> None:
    """A model that is trained in evaluation mode (frozen batch norms) is trained all the same."""
    loop.model.eval()
    loop.train()
    loop.train()
    record = trainer.record()

    assert 12 == record.state.steps
    assert {"data_wait", "forward", "backward", "optimizer"} <= set(record.steps[-1].phases)
    assert "evaluation" not in record.steps[-1].phases


def test_a_declared_phase_is_kept(trainer: Any, loop: Loop) -> None:
    """Within `shim.phase("evaluation")`, and in a function marked with it, nothing counts for training."""
    waited = trainer.record().state.phase_seconds["data_wait"]

    @shim.phase("evaluation")
    def look() -> None:
        loop.validate()

    look()
    with shim.phase("evaluation"), shim.phase("no such phase"):
        time.sleep(PAUSE_SECONDS)
    record = trainer.record()

    assert waited == record.state.phase_seconds["data_wait"]
    assert 3 * PAUSE_SECONDS <= record.state.phase_seconds["evaluation"]
    assert "other" == record.state.phase
