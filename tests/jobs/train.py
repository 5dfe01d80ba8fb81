"""A training script as users write it: DDP on gloo, a DataLoader with workers, nothing of aidiag in it.

Runs under torchrun, srun, with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set by hand, or alone. With the same
arguments it computes the same losses to the last bit. Faults are planted by options.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

WIDTH = 768
CLASSES = 10


class Pictures:
    """Made-up samples; each is the same whenever and wherever it is read. `read_seconds` is what reading one takes."""

    def __init__(self, size: int, read_seconds: float) -> None:
        self.size, self.read_seconds = size, read_seconds

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if self.read_seconds:
            time.sleep(self.read_seconds)
        generator = torch.Generator().manual_seed(index)
        return torch.randn(WIDTH, generator=generator), index % CLASSES


class Net(torch.nn.Module):  # type: ignore[misc] # torch is not type-checked here
    """Some linear layers, `repeats` times worked through."""

    def __init__(self, layers: int, repeats: int) -> None:
        super().__init__()
        blocks = [part for _ in range(layers) for part in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())]
        self.body = torch.nn.Sequential(*blocks, torch.nn.Linear(WIDTH, CLASSES))
        self.repeats = repeats

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Logits of a batch."""
        with torch.no_grad():
            for _ in range(self.repeats - 1):
                self.body(pictures)
        return self.body(pictures)


def place() -> tuple[int, int]:
    """Rank and world size, from torchrun's or Slurm's variables."""
    rank = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")))
    world = int(os.environ.get("WORLD_SIZE", os.environ.get("SLURM_NTASKS", "1")))
    return rank, world


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--layers", type=int, default=8, help="compute of a step")
    parser.add_argument("--start-method", choices=("fork", "spawn", "forkserver"), default="fork")
    parser.add_argument("--losses", type=Path, help="write the losses of each rank to FILE.<rank>, exactly")
    parser.add_argument("--checkpoint-every", type=int, default=0, help="steps")
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoint.pt"))
    faults = parser.add_argument_group("faults; without --on-rank on all ranks")
    faults.add_argument("--slow-loader", type=float, default=0.0, metavar="MS", help="more time to read a sample")
    faults.add_argument("--straggle", type=int, default=0, metavar="N", help="the forward pass N times more")
    faults.add_argument("--kill-at", type=int, metavar="STEP", help="the rank is killed (SIGKILL) in this step")
    faults.add_argument("--hang-at", type=int, metavar="STEP", help="the rank stays out of this step's collective")
    faults.add_argument("--raise-at", type=int, metavar="STEP", help="the rank raises in this step")
    faults.add_argument("--on-rank", type=int, metavar="RANK")
    return parser.parse_args()


def main() -> None:
    """Train."""
    arguments = options()
    rank, world = place()
    sick = arguments.on_rank in (None, rank)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29517")
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.manual_seed(1)

    model = DistributedDataParallel(Net(arguments.layers, 1 + (arguments.straggle if sick else 0)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    criterion = torch.nn.CrossEntropyLoss()
    samples = Pictures(arguments.batch * world * 25, arguments.slow_loader / 1000 if sick else 0.0)
    sampler = DistributedSampler(samples, num_replicas=world, rank=rank, seed=1)
    context = arguments.start_method if arguments.workers else None
    loader = DataLoader(
        samples, batch_size=arguments.batch, sampler=sampler, num_workers=arguments.workers,
        multiprocessing_context=context,
    )  # fmt: skip

    losses: list[float] = []
    epoch = 0
    while len(losses) < arguments.steps:
        sampler.set_epoch(epoch)
        epoch += 1
        for pictures, labels in loader:
            step = len(losses)
            if sick:
                plant(arguments, step)
            optimizer.zero_grad()
            loss = criterion(model(pictures), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if step % 20 == 0 and rank == 0:
                print(f"step {step} loss {losses[-1]:.6f}", flush=True)
            if arguments.checkpoint_every and (step + 1) % arguments.checkpoint_every == 0 and rank == 0:
                torch.save({"step": step, "model": model.state_dict()}, arguments.checkpoint)
            if len(losses) == arguments.steps:
                break

    print(f"rank {rank} of {world}: {len(losses)} steps, loss {losses[-1].hex()}", flush=True)
    if arguments.losses:
        path = arguments.losses.with_name(f"{arguments.losses.name}.{rank}")
        path.write_text("".join(f"{loss.hex()}\n" for loss in losses))
    dist.destroy_process_group()


def plant(arguments: argparse.Namespace, step: int) -> None:
    """The faults of one step."""
    if step == arguments.kill_at:
        print(f"step {step}: about to be killed", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if step == arguments.hang_at:
        print(f"step {step}: stays out", flush=True)
        time.sleep(3600)
    if step == arguments.raise_at:
        raise RuntimeError(f"planted in step {step}")


if __name__ == "__main__":
    main()
