"""torch.compile: no graph break more, no graph traced once more, the same losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import aidiag.trainer_shim as shim

X = torch.randn(4, 8)


class Model(nn.Module):  # type: ignore[misc]
    """A model with an operation in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 2)

    def forward(self, x: Any) -> Any:
        """Two layers."""
        return self.second(torch.relu_(self.first(x)))


@pytest.fixture(autouse=True)
def nothing_compiled_after() -> Iterator[None]:
    """Later tests find a process in which nothing has been compiled: where it has, the shim hooks no further modules."""
    yield
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()


def compiled(module: Any) -> Any:
    """torch.compile(module)."""
    return torch.compile(module, fullgraph=True, backend="aot_eager")


def in_place(module: Any) -> Any:
    """module.compile()."""
    module.compile(fullgraph=True, backend="eager")
    return module


def function(module: Any) -> Any:
    """A compiled function that calls the module."""
    return torch.compile(lambda x: module(x), fullgraph=True, backend="eager")


def region(module: Any) -> Any:
    """One compiled layer."""
    module.first = torch.compile(module.first, fullgraph=True, backend="eager")
    return module


def late(module: Any) -> Any:
    """A function that is compiled in the midst of training."""
    calls = 0
    traced = torch.compile(lambda x: module(x), fullgraph=True, backend="eager")

    def call(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return (module if calls < 5 else traced)(x)

    return call


WAYS: dict[str, tuple[Callable[[Any], Any], set[str]]] = {
    "compiled": (compiled, {"forward", "backward"}),
    "in place": (in_place, {"backward"}),
    "function": (function, {"backward"}),
    "region": (region, {"forward", "backward"}),
    "late": (late, {"forward", "backward"}),
}


def train(way: Callable[[Any], Any]) -> tuple[list[float], int, dict[str, int]]:
    """Eight steps; gives the losses, how many graphs were traced, and the breaks in them."""
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(3)
    module = Model()
    call = way(module)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    losses = []
    for _ in range(8):
        loss = call(X).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, counters["stats"]["unique_graphs"], dict(counters["graph_break"])


@pytest.mark.parametrize("name", WAYS)
def test_compiling(trainer: Any, name: str) -> None:
    """However a model is compiled, graphs and losses are those of a run without us; what can be told apart is."""
    way, phases = WAYS[name]
    with_hooks = train(way)
    record = trainer.record()
    shim.detach()

    assert train(way) == with_hooks
    assert 1 == with_hooks[1]
    assert 8 == record.state.steps
    assert phases == {"forward", "backward"} & set(record.state.phase_seconds)


def test_compiled_autograd(trainer: Any) -> None:
    """Where backward passes are compiled, nothing of ours is drawn into them."""
    import torch._dynamo as dynamo

    with dynamo.config.patch(compiled_autograd=True):
        losses, _, breaks = train(compiled)
        record = trainer.record()
        shim.detach()
        alone = train(compiled)[0]

    assert (losses, breaks) == (alone, {})
    assert {"forward", "backward"} <= set(record.state.phase_seconds)
    assert 8 == record.state.steps


def test_a_model_in_a_compiled_function_is_left_alone(trainer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where something was compiled and nobody knows what, no module gets hooks; a compiled part of a model shows what."""
    from aidiag.trainer_shim.hooks import search

    module = Model()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    assert [module, module.first, module.second] == search.candidates(torch, optimizer)
    monkeypatch.setattr(search, "has_compiled", lambda: True)
    assert [] == search.candidates(torch, optimizer)
    region(module)

    assert [module, module.first, module.second] == search.candidates(torch, optimizer)
