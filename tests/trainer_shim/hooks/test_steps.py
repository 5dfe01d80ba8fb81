"""Steps, as torch's optimizers make them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import aidiag.trainer_shim as shim
from aidiag.trainer_shim.timeline import UNSEEN_BATCHES

X = torch.randn(4, 8)


def model() -> nn.Module:
    """A small model."""
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(inplace=True), nn.Linear(8, 2))


def backward(module: nn.Module) -> None:
    """Forward and backward once."""
    module(X).sum().backward()


def test_steps_and_phases(trainer: Any) -> None:
    """A plain loop: one step a call, split into forward, backward, optimizer and the rest, which add up."""
    module = model()
    optimizer = torch.optim.AdamW(module.parameters())
    for _ in range(6):
        backward(module)
        optimizer.step()
        optimizer.zero_grad()
    record = trainer.record()

    assert (6, 0) == (record.state.steps, record.state.steps_skipped)
    assert [module] == trainer.roots
    assert {"forward", "backward", "optimizer", "other"} == set(record.steps[-1].phases)
    assert "comm" not in record.state.phase_seconds  # there is no process group
    for step in record.steps:
        assert step.seconds == pytest.approx(sum(step.phases.values()))


def test_accumulated_gradients_are_one_step(trainer: Any) -> None:
    """Four backward passes and one optimizer call are one step, with four forwards in it."""
    module = model()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(5):
        for _ in range(4):
            backward(module)
        optimizer.step()

    assert 5 == trainer.record().state.steps


def test_a_gan_takes_one_step_a_turn(trainer: Any) -> None:
    """Two models with an optimizer each, and forwards in between: one step a turn, both models are roots."""
    generator, critic = nn.Linear(4, 8), nn.Linear(8, 1)
    first = torch.optim.Adam(critic.parameters())
    second = torch.optim.Adam(generator.parameters())
    for _ in range(6):
        (critic(X).mean() - critic(generator(torch.randn(4, 4)).detach()).mean()).backward()
        first.step()
        critic(generator(torch.randn(4, 4))).mean().backward()
        second.step()
    record = trainer.record()

    assert 6 == record.state.steps
    assert {generator, critic} == set(trainer.roots)
    assert {"forward", "backward", "optimizer"} <= set(record.steps[-1].phases)


class Wrapper(torch.optim.Optimizer):  # type: ignore[misc]
    """An optimizer that passes all on to another, as accelerate's and many schedulers' do."""

    def __init__(self, inner: torch.optim.Optimizer, twice: bool) -> None:
        self.inner = inner
        if twice:
            super().__init__(inner.param_groups, {})

    def step(self, closure: Any = None) -> None:
        """Step the inner one."""
        self.inner.step()


@pytest.mark.parametrize("hooked", [False, True])
def test_a_wrapper_and_its_inner_optimizer_are_one(trainer: Any, hooked: bool) -> None:
    """A wrapper's call holds the inner call: one step, whether or not torch hooks the wrapper, too."""
    module = model()
    optimizer = Wrapper(torch.optim.SGD(module.parameters(), lr=0.1), hooked)
    for _ in range(5):
        backward(module)
        optimizer.step()

    assert 5 == trainer.record().state.steps


def test_a_closure_is_one_step(trainer: Any) -> None:
    """L-BFGS calls forward and backward from within its step."""
    module = model()
    optimizer = torch.optim.LBFGS(module.parameters(), max_iter=3)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = module(X).square().sum()
        loss.backward()
        return loss

    for _ in range(4):
        optimizer.step(closure)

    assert 4 == trainer.record().state.steps


def test_an_optimizer_that_raises_ends_no_step(trainer: Any) -> None:
    """An exception in an optimizer passes through, and the steps after it are counted as ever."""
    module = model()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    failing = torch.optim.SGD([nn.Parameter(torch.zeros(2))], lr=0.1)
    failing.param_groups[0]["params"] = None
    for _ in range(2):
        backward(module)
        optimizer.step()
        with pytest.raises(TypeError):
            failing.step()
    backward(module)
    optimizer.step()

    assert 3 == trainer.record().state.steps


def test_an_optimizer_a_parameter_within_backward(trainer: Any) -> None:
    """Optimizers that step in the backward pass, one a parameter, give one step a pass."""
    module = model()
    for parameter in module.parameters():
        optimizer = torch.optim.SGD([parameter], lr=0.1)
        parameter.register_post_accumulate_grad_hook(lambda _, optimizer=optimizer: optimizer.step())
    for _ in range(6):
        backward(module)

    assert 6 == trainer.record().state.steps


def test_an_optimizer_that_cannot_be_seen(trainer: Any) -> None:
    """Where no optimizer call is ever seen, batches with a backward pass are steps after a while; the first call that
    is seen ends that.
    """
    module = model()
    loader = DataLoader(TensorDataset(torch.randn(100, 8)), batch_size=1)
    for (batch,) in loader:
        module(batch).sum().backward()
    counted = trainer.record().state.steps
    assert 100 - UNSEEN_BATCHES - 1 <= counted <= 100 - UNSEEN_BATCHES
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for (batch,) in loader:
        module(batch).sum().backward()
    optimizer.step()
    unseen = trainer.record().state.steps
    for (batch,) in loader:
        module(batch).sum().backward()

    assert unseen == trainer.record().state.steps


def test_an_explicit_step_goes_before_optimizers(trainer: Any) -> None:
    """Once the trainer calls step(), optimizer calls are time and no steps."""
    module = model()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    shim.step()
    for _ in range(3):
        for _ in range(2):
            backward(module)
            optimizer.step()
        shim.step()
    record = trainer.record()

    assert 4 == record.state.steps
    assert record.steps[-1].phases["optimizer"] > 0


def test_errors_in_a_hook_reach_nobody(trainer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook that fails is counted, gives up after three times and leaves a note; training goes on."""
    module = model()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    monkeypatch.setattr(trainer.hooks.torch.steps, "_evaluation", None)
    for _ in range(6):
        backward(module)
        optimizer.step()
    timeline = trainer.timeline

    assert 3 == timeline.errors
    assert not trainer.hooks.torch.steps.live
    timeline.errors = 0
    (note,) = trainer.record().notes
    assert ("hook_off", "step", "AttributeError") == (note.kind, note.fields["hook"], note.fields["type"])


def test_nothing_is_left_behind(trainer: Any) -> None:
    """After detach() torch has its own functions, and no module and no optimizer has a hook of ours."""
    from torch.optim import optimizer as optimizers
    from torch.utils.data import dataloader

    module = model()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(4):
        backward(module)
        optimizer.step()
    assert len(module._forward_hooks) == 1 and not any(child._forward_hooks for child in module.children())
    shim.detach()

    assert not module._forward_hooks and not module._forward_pre_hooks
    assert not optimizers._global_optimizer_pre_hooks and not optimizers._global_optimizer_post_hooks
    assert "torch" in dataloader.DataLoader.__iter__.__module__
    assert not hasattr(dataloader._BaseDataLoaderIter.__next__, "__wrapped__")
    assert not hasattr(torch.save, "__wrapped__")
    backward(module)
    optimizer.step()
