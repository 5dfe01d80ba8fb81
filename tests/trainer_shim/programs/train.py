"""A training script that knows nothing of aidiag: `train.py fork|spawn`, alone or under torchrun.

Prints as JSON what must not depend on whether it is watched: losses to the bit, signal handlers, threads, exit handlers.
"""

# mypy: ignore-errors

import atexit
import json
import multiprocessing
import os
import signal
import sys
import threading
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    """Random items, the same in every run."""

    def __len__(self):
        return 24

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return torch.randn(8, generator=generator), index % 2


class Model(torch.nn.Module):
    """A model with dropout, batch norm and an operation in place."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 16)
        self.norm = torch.nn.BatchNorm1d(16)
        self.second = torch.nn.Linear(16, 2)

    def forward(self, x):
        """Two layers."""
        x = torch.relu_(self.norm(self.first(x)))
        return self.second(torch.nn.functional.dropout(x, 0.2, self.training))


def main():
    """Train, evaluate, save, and tell."""
    torch.manual_seed(5)
    torch.set_num_threads(1)
    if "RANK" in os.environ:
        torch.distributed.init_process_group("gloo")
    model = Model()
    wrapped = torch.nn.parallel.DistributedDataParallel(model) if "RANK" in os.environ else model
    optimizer = torch.optim.AdamW(wrapped.parameters(), lr=0.01)
    options = {"batch_size": 4, "num_workers": 1, "multiprocessing_context": sys.argv[1]}
    losses = []
    for _ in range(2):
        wrapped.train()
        for x, y in DataLoader(Numbers(), shuffle=True, **options):
            loss = torch.nn.functional.cross_entropy(wrapped(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item().hex())
        wrapped.eval()
        with torch.no_grad():
            for x, y in DataLoader(Numbers(), batch_size=8):
                losses.append(torch.nn.functional.cross_entropy(wrapped(x), y).item().hex())
        torch.save(model.state_dict(), os.devnull)
    for thread in threading.enumerate():
        if thread.name == "QueueFeederThread":  # of the last workers, on its way out
            thread.join(10)
    print(
        json.dumps(
            {
                "losses": losses,
                "signals": [getattr(h, "__qualname__", str(h)) for h in map(signal.getsignal, signal.valid_signals())],
                "threads": [thread.name for thread in threading.enumerate()],
                "tasks": len(list(Path("/proc/self/task").iterdir())),
                "exit_handlers": atexit._ncallbacks(),
                "children": [child.name for child in multiprocessing.active_children()],
            }
        )
    )
    if "RANK" in os.environ:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
