"""How fast logs are read: MiB a CPU second of whole processes, beside ripgrep with the same patterns, in one run.

    python bench/log_scan.py [--mib 256] [--runs 3]

Three logs are made: training output with a fault in 2,000 lines; the same with NCCL's start-up lines of 64 ranks again and
again, as of an elastic job that restarts every few megabytes; and nothing but start-up lines. What is measured reads every
line, finds every planted fault with its fields, and is one process with one thread, its start included: once with the line
number of every event, and once without, as for a huge log of which a handful of lines is shown in the end.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from aidiag.collectors.logs.catalogue import read_catalogue
from aidiag.collectors.logs.compiled import load_catalogue
from aidiag.collectors.logs.pattern import Blanks, Choice, Field, Literal, Parts, read

MIB = 1 << 20
FAULT_EVERY = 2_000
STARTUP_SHARE = 0.10
"""Of the bytes of the dense log: what 64 ranks print when a job starts, then training until the next start."""

READER = """
import sys
from collections import Counter
from pathlib import Path
from aidiag.collectors.logs import read_log
kinds = Counter(event.kind for event in read_log(Path(sys.argv[1]), numbered=sys.argv[2] == "numbered"))
print(kinds["rdma_completion_error"] + kinds["cuda_out_of_memory"], sum(kinds.values()))
"""


def training(number: int, chance: random.Random) -> str:
    """A line as training programs print it."""
    loss, rate = chance.random(), 1000 * chance.random()
    match chance.randrange(4):
        case 0:
            return f"[rank{number % 8}]: step {number} loss {loss:.4f} lr 3.0e-04 throughput {rate:.1f} tokens/s memory 45.3 GiB"
        case 1:
            return f"2026-11-30 20:17:36,{number % 1000:03d} INFO trainer.py:{number % 300} epoch {number // 1000} batch {number} time {loss:.3f}s data {loss / 10:.3f}s"
        case 2:
            return f"node-a:{1000 + number % 8}:{2000 + number % 8} [{number % 8}] NCCL INFO AllReduce: opCount {number:x} sendbuff 0x7f{number:09x} count {number * 16} datatype 7 op 0 root 0 comm 0x55d1c0 [nranks=8]"
        case _:
            return f"Epoch {number // 100}: {number % 100}% |{'#' * (number % 40)}| {number}/100000 [00:12<00:34, 12.3it/s, loss={loss:.3f}]"


def fault(number: int) -> str:
    """A line that must be found."""
    if number % 2:
        return f"[rank{number % 64}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.15 GiB of which 815.06 MiB is free. Process {number} has 30.02 GiB memory in use. Including non-PyTorch memory, this process has 48.31 GiB memory in use. Of the allocated memory 45.20 GiB is allocated by PyTorch, and 1.29 GiB is reserved by PyTorch but unallocated."
    return f"node-b:{number}:77 [0] transport/net_ib.cc:94 NCCL WARN NET/IB : Got completion from peer 192.0.2.3<45123> with error 12, opcode 0, len 0, vendor err 129"


def start_up(generation: int) -> Iterator[str]:
    """What 64 ranks on 8 hosts print at the start of one communicator."""
    for rank in range(64):
        host, device = rank // 8, rank % 8
        prefix = f"node-{host}:{10000 + 100 * generation % 50000 + device}:{20000 + device} [{device}] NCCL INFO "
        comm = f"comm 0x55d1c0a0 rank {rank} nranks 64 cudaDev {device} nvmlDev {device} busId 3b000 commId 0x9a{generation:06x}"
        yield prefix + "Bootstrap : Using eth0:10.0.0.1<0>"
        yield prefix + "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>"
        yield prefix + "Using non-device net plugin version 0"
        yield prefix + "Using network IB"
        yield prefix + "NCCL_IB_HCA set by environment to mlx5"
        yield prefix + comm + " - Init START"
        yield prefix + f"Setting affinity for GPU {device} to ffffffff"
        yield prefix + f"NVLS multicast support is not available on dev {device}"
        for channel in range(24):
            yield prefix + f"Channel {channel:02d}/24 :    0   1   2   3   4   5   6   7"
        yield prefix + "Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->-1 [2] 1/-1/-1->0->-1 [3] 1/-1/-1->0->-1"
        yield prefix + "P2P Chunksize set to 131072"
        for channel in range(24):
            yield (
                prefix
                + f"Channel {channel:02d}/0 : {rank}[{device}] -> {(rank + 1) % 64}[{(device + 1) % 8}] via P2P/CUMEM/read"
            )
            yield (
                prefix
                + f"Channel {channel:02d}/0 : {rank}[{device}] -> {(rank + 9) % 64}[{(device + 1) % 8}] [send] via NET/IB/{device}/GDRDMA"
            )
        yield prefix + "Connected all rings"
        yield prefix + "Connected all trees"
        yield prefix + "threadThresholds 8/8/64 | 512/8/64 | 512 | 512"
        yield prefix + "24 coll channels, 0 collnet channels, 0 nvls channels, 32 p2p channels, 2 p2p channels per peer"
        yield prefix + comm + " - Init COMPLETE"


def sparse_log(path: Path, size: int) -> int:
    """Write the log with few faults; how many there are."""
    return _write(path, size, 0.0)


def dense_log(path: Path, size: int, share: float) -> int:
    """Write the log with many starts; how many faults there are."""
    return _write(path, size, share)


def _write(path: Path, size: int, share: float) -> int:
    chance = random.Random(7)
    faults = number = written = generation = 0
    started = 0
    with path.open("w") as file:
        while written < size:
            if share and started <= share * written:
                text = "\n".join(start_up(generation)) + "\n"
                generation += 1
                started += len(text)
            else:
                lines = [training(number + n, chance) for n in range(FAULT_EVERY - 1)]
                if share < 1:
                    lines.append(fault(faults))
                    faults += 1
                number += FAULT_EVERY
                text = "\n".join(lines) + "\n"
            file.write(text)
            written += len(text)
    return faults


def ripgrep_patterns(path: Path) -> int:
    """Write all wordings of the catalogue as ripgrep takes them; how many there are."""
    wordings = [one.source for message in read_catalogue() for one in message.patterns]
    path.write_text("".join(_ripgrep(read(source)) + "\n" for source in wordings))
    return len(wordings)


def _ripgrep(parts: Parts) -> str:
    out = []
    for part in parts:
        match part:
            case Literal(text):
                out.append("".join(f"\\{char}" if char in r"\.+*?()|[]{}^$" else char for char in text))
            case Blanks():
                out.append("[ \t]+")
            case Field(type=type_):
                out.append(".*" if type_.loose else f"(?:{_unbounded(type_.expression)})")
            case Choice(options):
                out.append("(?:" + "|".join(_ripgrep(option) for option in options) + ")")
    return "".join(out).replace("\\ ", " ").replace("\\/", "/")


def _unbounded(expression: str) -> str:
    """Repeats without an upper bound, which ripgrep's automata like better, and ASCII classes."""
    simple = re.sub(r"\{[01],\d{2,}\}", "+", expression)
    return simple.replace("\\d", "[0-9]").replace("[\\w.]", "[A-Za-z0-9_.]").replace("\\w", "[A-Za-z0-9_]")


def cpu_seconds(command: list[str]) -> tuple[float, float, str]:
    """CPU seconds and peak memory in MiB of a whole process and what it prints."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, env={**os.environ, "LC_ALL": "C"})
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode().strip()
    if process.returncode:
        sys.exit(f"{command[0]} failed: {text}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, text


def measure(name: str, path: Path, faults: int, patterns: Path, runs: int) -> None:
    """Read one log with each, in turns, and print what came out."""
    size = path.stat().st_size / MIB
    commands = {
        "aidiag, no numbers": [sys.executable, "-c", READER, str(path), "bare"],
        "aidiag": [sys.executable, "-c", READER, str(path), "numbered"],
    }
    if shutil.which("rg"):
        commands["ripgrep"] = ["rg", "-j1", "-c", "-a", "-f", str(patterns), str(path)]
    else:
        print("ripgrep is not installed: its side is skipped (apt install ripgrep)")
    speeds: dict[str, list[float]] = {which: [] for which in commands}
    peak, told = 0.0, ""
    for _ in range(runs):
        for which, command in commands.items():
            seconds, memory, output = cpu_seconds(command)
            speeds[which].append(size / seconds)
            if which != "ripgrep":
                peak, told = max(peak, memory), output
    found, events = map(int, told.split())
    print(f"{name}: {size:.0f} MiB, {events} events, {found} of {faults} faults found, peak memory {peak:.0f} MiB")
    for which, measured in speeds.items():
        beside = ""
        if which != "ripgrep" and "ripgrep" in speeds:
            ratios = [one / other for one, other in zip(measured, speeds["ripgrep"], strict=True)]
            beside = f"   {statistics.median(ratios):.2f} of ripgrep"
        print(f"  {which:20} {statistics.median(measured):7.0f} MiB/s of CPU{beside}")
    if found != faults:
        sys.exit(f"{name}: {faults - found} faults were not found")


def main() -> None:
    """Make the logs, read them, print the figures."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--mib", type=int, default=256, help="size of each log")
    arguments.add_argument("--runs", type=int, default=3)
    options = arguments.parse_args()
    load_catalogue()  # so that every run finds the cache warm
    with tempfile.TemporaryDirectory() as folder:
        patterns, log = Path(folder, "patterns"), Path(folder, "log")
        print(f"{ripgrep_patterns(patterns)} patterns")
        measure("sparse", log, sparse_log(log, options.mib * MIB), patterns, options.runs)
        share = f"{STARTUP_SHARE:.0%}"
        measure(
            f"start-up dense ({share})", log, dense_log(log, options.mib * MIB, STARTUP_SHARE), patterns, options.runs
        )
        measure("nothing but start-up", log, dense_log(log, options.mib * MIB // 4, 1.0), patterns, options.runs)


if __name__ == "__main__":
    main()
