"""What watching costs is bounded in what can be counted: objects, memory, calls."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

X = torch.randn(4, 8)


def test_steps_leave_nothing_in_memory(trainer: Any) -> None:
    """Thousands of steps, batches and forwards allocate nothing that stays."""
    module = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-6)
    loader = DataLoader(TensorDataset(torch.randn(64, 8)), batch_size=4)

    def train(epochs: int) -> None:
        for _ in range(epochs):
            for (batch,) in loader:
                module(batch).sum().backward()
                optimizer.step()
                optimizer.zero_grad()

    train(20)
    gc.collect()
    tracemalloc.start()
    train(5)
    gc.collect()
    before = tracemalloc.take_snapshot()
    train(100)
    gc.collect()
    after = tracemalloc.take_snapshot()
    tracemalloc.stop()
    ours = [stat for stat in after.compare_to(before, "filename") if "trainer_shim" in stat.traceback[0].filename]

    assert sum(stat.size_diff for stat in ours) < 16 * 1024  # free lists fill up; an object a step would be 100 KiB
    assert trainer.record().state.steps == 125 * 16


def test_graphs_are_let_go(trainer: Any) -> None:
    """A hook on a graph does not keep the graph, its output or its inputs alive."""
    module = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-6)
    for _ in range(4):
        module(X).sum().backward()
        optimizer.step()
    gc.collect()
    gc.disable()
    try:
        count = sum(type(thing) is torch.Tensor for thing in gc.get_objects())
        for _ in range(20):
            module(X)
            module(X).sum().backward()
        later = sum(type(thing) is torch.Tensor for thing in gc.get_objects())
    finally:
        gc.enable()

    assert count == later


def test_many_threads_at_once(trainer: Any) -> None:
    """Threads that train models of their own at the same time do no harm to each other, or to the record."""
    failures: list[BaseException] = []

    def train() -> None:
        try:
            module = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(module.parameters(), lr=1e-6)
            for _ in range(50):
                for (batch,) in DataLoader(TensorDataset(torch.randn(8, 8)), batch_size=4):
                    module(batch).sum().backward()
                    optimizer.step()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=train) for _ in range(4)]
    for thread in threads:
        thread.start()
    train()
    for thread in threads:
        thread.join()
    record = trainer.record()

    assert [] == failures
    assert record.state.steps >= 100
    assert record.state.calls_dropped > 0
