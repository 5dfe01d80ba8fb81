"""Root modules: they are found, hooked as instances, and stay fit for everything else that is done with modules."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

X = torch.randn(4, 8)


class Model(nn.Module):  # type: ignore[misc]
    """A model with an operation in place, which full backward hooks would break."""

    def __init__(self, output: Any = lambda y: y) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 2)
        self._output = output

    def forward(self, x: Any) -> Any:
        """Two layers."""
        return self._output(self.second(torch.relu_(self.first(x))))


@dataclass
class Output:
    """An output as transformers make it."""

    loss: Any
    logits: Any


def train(module: Any, steps: int = 4, loss: Any = lambda y: y.sum(), call: Any = None) -> list[float]:
    """A few steps; gives their losses."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    losses = []
    for _ in range(steps):
        value = loss((call or module)(X))
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


Pair = namedtuple("Pair", "hidden loss")
OUTPUTS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "tensor": (lambda y: y, lambda y: y.sum()),
    "tuple": (lambda y: (X, y, None), lambda y: y[1].sum()),
    "named tuple": (lambda y: Pair(X, y.sum()), lambda y: y.loss),
    "mapping": (lambda y: {"logits": y, "loss": y.sum()}, lambda y: y["loss"]),
    "data class": (lambda y: Output(y.sum(), y), lambda y: y.loss),
    "nested": (lambda y: {"a": [{"b": y}]}, lambda y: y["a"][0]["b"].sum()),
}


@pytest.mark.parametrize("kind", OUTPUTS)
def test_backward_is_found_in_any_output(trainer: Any, kind: str) -> None:
    """Whatever a model returns, its forward and its backward pass are told apart."""
    output, loss = OUTPUTS[kind]
    trainer.hooks.torch.backward._by_graph = True
    module = Model(output)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    for _ in range(4):
        value = loss(module(X))
        torch.autograd.Variable._execution_engine.run_backward(
            (value,), (torch.ones_like(value),), False, False, (), True, True
        )
        optimizer.step()
    phases = trainer.record().steps[-1].phases

    assert {"forward", "backward", "optimizer", "other"} == set(phases)


def test_a_backward_pass_that_goes_around_the_call(trainer: Any) -> None:
    """A trainer that calls the autograd engine itself (pipeline engines do) is noticed, and its passes are found by
    their graphs.
    """
    module = Model()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    for _ in range(8):
        loss = module(X).sum()
        torch.autograd.Variable._execution_engine.run_backward(
            (loss,), (torch.ones_like(loss),), False, False, (), True, True
        )
        optimizer.step()
    record = trainer.record()

    assert {"forward", "backward", "optimizer", "other"} == set(record.steps[-1].phases)
    assert "backward" not in record.steps[3].phases


def test_a_large_model_has_hooks_on_its_root_alone(trainer: Any) -> None:
    """Of 501 modules one carries hooks: the cost does not grow with the model."""
    module = nn.Sequential(*[nn.Linear(8, 8) for _ in range(500)])
    train(module)

    assert [module] == trainer.roots
    hooked = [m for m in module.modules() if m._forward_hooks or m._forward_pre_hooks or m._backward_hooks]
    assert [module] == hooked


def test_an_outer_module_that_is_not_called(trainer: Any) -> None:
    """A container whose parts are called by the trainer is no root: the parts are."""
    container = nn.ModuleDict({"encoder": nn.Linear(8, 8), "head": nn.Linear(8, 2)})
    train(container, call=lambda x: container["head"](container["encoder"](x)))

    assert {container["encoder"], container["head"]} == set(trainer.roots)


def test_a_recomputed_layer_is_no_root(trainer: Any) -> None:
    """Checkpointed layers run again in the backward pass; the root stays the only root."""
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(Model):
        def forward(self, x: Any) -> Any:
            return self.second(checkpoint(self.first, x, use_reentrant=False))

    module = Checkpointed()
    train(module)

    assert [module] == trainer.roots


def test_a_wrapped_model(trainer: Any) -> None:
    """DataParallel is the root, not the model inside."""
    module = nn.DataParallel(Model())
    train(module)

    assert [module] == trainer.roots


def test_an_optimizer_over_other_tensors(trainer: Any) -> None:
    """An optimizer that holds copies of the parameters (ZeRO) leads to the model that is trained all the same."""
    module = Model()
    masters = [parameter.detach().clone() for parameter in module.parameters()]
    optimizer = torch.optim.SGD(masters, lr=0.1)
    for _ in range(4):
        module(X).sum().backward()
        for master, parameter in zip(masters, module.parameters(), strict=True):
            master.grad = parameter.grad
        optimizer.step()

    assert module in trainer.roots


def test_losses_are_the_same(trainer: Any) -> None:
    """With and without hooks a model learns the same, to the bit."""
    torch.manual_seed(1)
    module = Model()
    twin = copy.deepcopy(module)
    with_hooks = train(module, 8)
    trainer.session.detach()

    assert train(twin, 8) == with_hooks


def test_an_error_in_a_forward_passes(trainer: Any) -> None:
    """A forward that raises is the trainer's to handle; the steps after it are split as ever."""
    module = Model()
    train(module)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="shapes"):
            module(torch.zeros(1, 3))
    train(module, 2)

    assert {"forward", "backward", "optimizer", "other"} == set(trainer.record().steps[-1].phases)


def test_an_error_in_a_backward_pass(trainer: Any) -> None:
    """A backward pass that raises leaves nothing behind that the next one could stumble over."""
    module = Model()
    train(module)

    def refuse(_: Any) -> None:
        raise ValueError("planted")

    for _ in range(2):
        handle = module.second.weight.register_hook(refuse)
        with pytest.raises(ValueError, match="planted"):
            module(X).sum().backward()
        handle.remove()
    train(module, 2)

    assert {"forward", "backward", "optimizer", "other"} == set(trainer.record().steps[-1].phases)


def test_a_copy_has_no_hooks_of_ours(trainer: Any) -> None:
    """A deep copy (weight averages) works, and its forwards count for nothing."""
    module = Model()
    train(module)
    twin = copy.deepcopy(module)
    before = trainer.record().state.phase_seconds["forward"]
    twin(X)

    assert before == trainer.record().state.phase_seconds["forward"]
    assert all("aidiag" not in type(hook).__module__ for hook in twin._forward_hooks.values())


def picklable() -> nn.Module:
    """A model that can be pickled as a whole."""
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))


@pytest.mark.parametrize("steps", [1, 2, 5], ids=["searching", "watching", "hooked"])
def test_a_saved_model_needs_no_aidiag(trainer: Any, tmp_path: Path, steps: int) -> None:
    """A whole model that was saved during training can be loaded where aidiag is not installed."""
    module = picklable()
    train(module, steps)
    torch.save(module, tmp_path / "model.pt")
    assert b"aidiag.trainer_shim" not in pickle.dumps(module)
    program = (
        f"import sys, torch; m = torch.load({str(tmp_path / 'model.pt')!r}, weights_only=False); "
        "print(m(torch.ones(1, 8)).shape, 'aidiag' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True, cwd="/")

    assert "torch.Size([1, 2]) False" == done.stdout.strip()


def test_other_uses_of_a_model(trainer: Any) -> None:
    """A model under hooks can be scripted, traced, exported and taken apart by torch.fx, with the same results."""
    module = picklable()
    train(module, 5)
    assert [module] == trainer.roots
    expected = module(X)
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(module), buffer)
    buffer.seek(0)

    assert torch.equal(expected, torch.jit.load(buffer)(X))
    assert torch.equal(expected, torch.jit.trace(module, X)(X))
    assert torch.equal(expected, torch.export.export(module, (X,)).module()(X))
    assert torch.equal(expected, torch.fx.symbolic_trace(module)(X))
    assert [module] == trainer.roots and module._forward_hooks


def test_a_model_that_is_gone_is_let_go(trainer: Any) -> None:
    """The shim keeps no model alive."""
    import gc
    import weakref

    module = Model()
    reference = weakref.ref(module)
    train(module)
    del module
    gc.collect()

    assert reference() is None
    train(Model())
    trainer.record()
