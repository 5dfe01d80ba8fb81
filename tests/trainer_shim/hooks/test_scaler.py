"""The gradient scaler: skipped steps and its scale."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn


def train(scaler: Any, infinite: list[bool], told: Any = lambda: None, **options: Any) -> list[float]:
    """Steps under a scaler, some with infinite gradients; gives the scale after each, and calls `told` then."""
    module = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01, **options)
    scales = []
    for bad in infinite:
        optimizer.zero_grad()
        loss = module(torch.ones(2, 4)).sum() * (math.inf if bad else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        told()
    return scales


def test_a_skipped_step(trainer: Any) -> None:
    """Infinite gradients make a skipped step, which is no step done; the scale is told."""
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scales = train(scaler, [False, True, False, True, True])
    record = trainer.record()

    assert (2, 3) == (record.state.steps, record.state.steps_skipped)
    assert [False, True, False, True, True] == [step.skipped for step in record.steps]
    assert 1.0 == scales[-1] == record.state.loss_scale


def test_a_scaler_that_is_off(trainer: Any) -> None:
    """A disabled scaler skips nothing and has no scale."""
    train(torch.amp.GradScaler("cpu", enabled=False), [False] * 3)
    record = trainer.record()

    assert (3, 0, None) == (record.state.steps, record.state.steps_skipped, record.state.loss_scale)


@pytest.mark.parametrize("restored", [False, True])
def test_a_scale_is_followed_without_reading_it(trainer: Any, monkeypatch: pytest.MonkeyPatch, restored: bool) -> None:
    """On a GPU the scale is worked out and never read; the result is what reading would give."""
    monkeypatch.setattr("aidiag.trainer_shim.hooks.scaler._on_cpu", lambda _: False)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=3)
    if restored:
        scaler.load_state_dict({**scaler.state_dict(), "scale": 16.0, "_growth_tracker": 2})
    followed: list[float] = []
    infinite = [False, False, True, False, False, False, False, True, False]
    scales = train(scaler, infinite, lambda: followed.append(trainer.timeline.loss_scale))

    assert {1.0, 0.5, 2.0} == {after / before for before, after in pairwise(scales)}
    assert scales == followed


def test_a_scale_that_cannot_be_sure_is_untold(trainer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fused optimizers skip on the GPU, where we do not look: no scale is better than a wrong one."""
    monkeypatch.setattr("aidiag.trainer_shim.hooks.scaler._on_cpu", lambda _: False)
    train(torch.amp.GradScaler("cpu", init_scale=64.0), [False, False], fused=True)

    assert trainer.record().state.loss_scale is None
