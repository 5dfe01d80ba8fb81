"""Kills writers in the midst of writing and counts what a reader then finds: `kill_writers.py FOLDER KILLS`.

Every number of a state and of a step is derived from one counter, so that a mixture of two writes shows. The writer
says through a pipe which counter it has finished with; a record must never lie behind that.
"""

from __future__ import annotations

import json
import os
import random
import signal
import struct
import sys
import time
from pathlib import Path

from aidiag.trainer_shim import folder, identity, layout, owner
from aidiag.trainer_shim.record import RecordError, read_record
from aidiag.trainer_shim.writer import RecordWriter


def state(n: int) -> tuple[int, ...]:
    """The fields of a state that is n all over."""
    head = (n, n, n, n, 0, n, n, n, n, 1, 0, 0, 0, 1, layout.TRAINING, layout.OTHER, 3, n, n)
    return (*head, *[n] * 6, *[n] * len(layout.PHASES))


def write(environ: dict[str, str], acknowledge: int) -> None:
    """Write for ever."""
    here = owner.this_process()
    path, fd = folder.create_record(environ, here)
    writer = RecordWriter(fd)
    told = {**identity.identity({}, "/"), **identity.process_identity(here)}
    writer.identity(told)
    writer.state(*state(1))
    writer.publish()
    os.write(acknowledge, path.encode() + b"\n")
    n = 1
    while True:
        n += 1
        writer.stamp(layout.OTHER, n)
        writer.step(n, n, n, n & 0xFFFFFFFF, layout.STEP_LOSS, 0, *[n] * len(layout.PHASES))
        writer.loader(0, layout.LOADER_COUNTS.pack(n, n, n, n, n, -1) + layout.LOADER_FACTS.pack(b"l", b"k", 0, 0, 1))
        writer.state(*state(n))
        if n % 16 == 0:
            os.write(acknowledge, struct.pack("<I", n))


def problem(path: str, least: int) -> str:
    """What is wrong with a record, empty when nothing is."""
    try:
        record = read_record(path)
    except RecordError as error:
        return f"no record: {error.code} {error}"
    now = record.state
    # Steps that ended after the last state bring it up to themselves; what they do not hold is as of the state.
    of_state = {now.memory_allocated_bytes or 0, now.memory_peak_bytes or 0, round(now.overhead_seconds * 1e9)}
    of_steps = {now.steps, now.batches, int(now.loss or 0)} | {round(s * 1e9) for s in now.phase_seconds.values()}
    if len(of_state) != 1 or len(of_steps) != 1 or not max(of_state) <= max(of_steps):
        return f"torn state {of_state} {of_steps}"
    if now.steps < least:
        return f"state {now.steps} lies behind {least}"
    for step in record.steps:
        if {round(step.end * 1e9), step.batches, int(step.loss or 0)} - {step.number} and step.loss is not None:
            return f"torn step {step}"
        if {round(value * 1e9) for value in step.spent_seconds.values()} != {step.number}:
            return f"torn step {step}"
    for loader in record.loaders:
        if len({round(loader.wait_seconds * 1e9), loader.batches, loader.iterations}) != 1:
            return f"torn loader {loader}"
    return ""


def main() -> None:
    """Kill, read, count."""
    environ = {"AIDIAG_DIR": sys.argv[1]}
    chance = random.Random(7)
    problems: list[str] = []
    live_reads = 0
    for _ in range(int(sys.argv[2])):
        ours, theirs = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(ours)
            write(environ, theirs)
        os.close(theirs)
        with os.fdopen(ours, "rb") as acknowledged:
            path = acknowledged.readline().decode().strip()
            end = time.monotonic() + chance.random() * 0.006
            while time.monotonic() < end:
                problems.extend(filter(None, [problem(path, 1)]))
                live_reads += 1
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            rest = acknowledged.read()
        counts = struct.unpack(f"<{len(rest) // 4}I", rest[: len(rest) // 4 * 4])
        problems.extend(filter(None, [problem(path, max(counts, default=1))]))
        Path(path).unlink()
    print(json.dumps({"problems": problems[:5], "count": len(problems), "live_reads": live_reads}))


if __name__ == "__main__":
    main()
