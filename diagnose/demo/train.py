"""The demo's training script: plain DDP on gloo with a DataLoader, as users write it. It knows nothing of aidiag."""

from __future__ import annotations

import argparse
import os
import signal
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

WIDTH, CLASSES, BATCH = 768, 10, 64
WARM_UP = 20


class Pictures:
    """Made-up samples, each of which takes a while to read."""

    def __init__(self, read_seconds: float) -> None:
        self.read_seconds = read_seconds

    def __len__(self) -> int:
        return BATCH * 50

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(self.read_seconds)
        return torch.randn(WIDTH, generator=torch.Generator().manual_seed(index)), index % CLASSES


class Net(torch.nn.Module):  # type: ignore[misc] # torch is not type-checked here
    """Linear layers, worked through `repeats` times."""

    def __init__(self, repeats: int) -> None:
        super().__init__()
        layers = [part for _ in range(8) for part in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())]
        self.body = torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, CLASSES))
        self.repeats = repeats

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Logits of a batch."""
        with torch.no_grad():
            for _ in range(self.repeats - 1):
                self.body(pictures)
        return self.body(pictures)


def main() -> None:
    """Train for some seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--read-ms", type=float, default=0.05)
    parser.add_argument("--straggler", type=int, metavar="RANK")
    parser.add_argument("--dead-rank", type=int, metavar="RANK")
    options = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = DistributedDataParallel(Net(repeats=4 if rank == options.straggler else 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    criterion = torch.nn.CrossEntropyLoss()
    loader = DataLoader(Pictures(options.read_ms / 1000), batch_size=BATCH, num_workers=options.workers)

    begin = warm = time.monotonic()
    step, last = 0, WARM_UP + 1
    while step < last:
        for pictures, labels in loader:
            loss = criterion(model(pictures), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step == WARM_UP // 2:
                warm = time.monotonic()
            if step == WARM_UP:
                last = WARM_UP + steps_in(options.seconds - (time.monotonic() - begin), time.monotonic() - warm)
            if step % 50 == 0 and rank == 0:
                print(f"step {step} of {last}, loss {loss.item():.4f}", flush=True)
            if rank == options.dead_rank and step > WARM_UP and step >= last // 2:
                os.kill(os.getpid(), signal.SIGKILL)
            if step == last:
                break
    if rank == 0:
        print(f"{step} steps in {time.monotonic() - begin:.0f} s", flush=True)
    dist.destroy_process_group()


def steps_in(seconds: float, sample_seconds: float) -> int:
    """How many steps fit into `seconds`, when half of the warm-up took `sample_seconds`; the same answer on all ranks."""
    steps = torch.tensor([int(seconds / sample_seconds * WARM_UP / 2)])
    dist.broadcast(steps, 0)
    return max(int(steps.item()), 1)


if __name__ == "__main__":
    main()
