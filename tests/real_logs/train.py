"""A training job of two ranks on gloo, each of whose faults is a real one: `torchrun --nproc-per-node 2 train.py FAULT`."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

STEPS = 6
FAULT_STEP = 3


class Samples:
    """Made-up samples of `size` numbers. `kills` ends the worker that reads the 9th one by SIGKILL."""

    def __init__(self, size: int, kills: bool) -> None:
        self.size, self.kills = size, kills

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.kills and index == 8:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.full((self.size,), float(index))


def main() -> None:
    """Train some steps, with the fault that the command line names."""
    fault = sys.argv[1]
    rank = int(os.environ["RANK"])
    if fault == "too_many_files" and rank == 1:
        resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))
    dist.init_process_group("gloo", timeout=timedelta(seconds=float(os.environ.get("TIMEOUT", "8"))))
    size = 2_000_000 if fault == "large_batches" else 64
    workers = 2 if fault in ("large_batches", "worker_killed", "too_many_files") else 0
    loader = DataLoader(Samples(size, fault == "worker_killed" and rank == 1), batch_size=4, num_workers=workers)
    kept = []
    for step, batch in enumerate(loader):
        if step == STEPS:
            break
        if step == FAULT_STEP and rank == 1:
            kept.append(misbehave(fault))
        if fault == "fewer_batches" and step == FAULT_STEP and rank == 1:
            print(f"rank 1: epoch of {step} batches done", flush=True)
            dist.barrier()
            break
        wrong = fault == "shapes" and step == FAULT_STEP and rank == 1
        gradient = torch.ones(6 if wrong else 4) * batch.mean()
        dist.all_reduce(gradient)
        if rank == 0:
            print(f"step {step} loss {float(gradient[0]):.3f}", flush=True)
    dist.destroy_process_group()
    if rank == 0:
        print("Training finished", flush=True)


def misbehave(fault: str) -> object:
    """What goes wrong on rank 1 in the middle of training."""
    if fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "crashes":
        os.kill(os.getpid(), signal.SIGSEGV)
    if fault == "raises":
        raise ValueError("bad batch: shapes (3, 4)")
    if fault == "late":
        time.sleep(600)
    if fault == "eats_memory":
        return [bytearray(os.urandom(1 << 20)) for _ in range(4096)]
    return None


if __name__ == "__main__":
    main()
