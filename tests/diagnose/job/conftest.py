"""Records of trainers that have trained as the test says, written by the shim's own writer."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from aidiag.trainer_shim import identity, layout, owner
from aidiag.trainer_shim.timeline import Timeline
from aidiag.trainer_shim.writer import RecordWriter

Train = Callable[..., Path]


@pytest.fixture
def shim_folder(tmp_path: Path) -> Path:
    """A folder such as the shim makes, and no other."""
    folder = tmp_path / "shim"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def train(shim_folder: Path) -> Train:
    """Makes the record of a rank of job j that has made some steps of the phases that are given, in seconds."""

    def make(rank: int, steps: int = 2, skipped: int = 0, attached_unix: float | None = None, **phases: float) -> Path:
        who = owner.this_process()._replace(pid=4_100_000 + rank)
        path = shim_folder / owner.file_name(who)
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.posix_fallocate(fd, 0, layout.FILE_BYTES)
        writer = RecordWriter(fd)
        os.close(fd)
        facts = {**identity.identity({"AIDIAG_JOB_ID": "j"}, "/"), **identity.process_identity(who), "rank": rank}
        writer.identity({**facts, "world_size": 8, "attached_unix": attached_unix or facts["attached_unix"]})
        now = time.monotonic_ns()
        timeline = Timeline(writer, lambda: now)
        writer.publish()
        timeline.start(now)
        for number in range(steps):
            for phase, seconds in phases.items():
                timeline.enter(layout.PHASES.index(phase), now)
                now += round(seconds * 1e9)
                timeline.leave(now)
            timeline.end_step(now, number < skipped)
        return path

    return make
