"""Records of trainers that the tests play: written by the shim's own writer, under a clock of the test's."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aidiag.collectors.collector import Context
from aidiag.collectors.errors import HungError
from aidiag.trainer_shim import identity, layout, owner
from aidiag.trainer_shim.timeline import Timeline
from aidiag.trainer_shim.writer import RecordWriter

HERE = owner.this_process()
GONE = HERE._replace(pid=4_100_000)
"""A process of this host that has ended."""


class Trainer:
    """A rank that trains as the test says. Its clock starts now and is moved by `spend`."""

    def __init__(self, folder: Path, who: owner.Owner = HERE, **changes: Any) -> None:
        self.owner = who
        self.path = folder / owner.file_name(who)
        self.now = time.monotonic_ns()
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        os.posix_fallocate(fd, 0, layout.FILE_BYTES)
        self.writer = RecordWriter(fd)
        os.close(fd)
        self.identity = {
            **identity.identity({"AIDIAG_JOB_ID": "j"}, "/"),
            **identity.process_identity(who),
            **changes,
        }
        self.writer.identity(self.identity)
        self.timeline = Timeline(self.writer, lambda: self.now)
        self.writer.publish()

    def spend(self, phase: str, seconds: float) -> None:
        """Be in a phase for a while."""
        if not self.timeline.running:
            self.timeline.start(self.now)
        self.timeline.enter(layout.PHASES.index(phase), self.now)
        self.now += round(seconds * 1e9)
        self.timeline.leave(self.now)

    def step(self, **phases: float) -> None:
        """One step of these phases."""
        for phase, seconds in phases.items():
            self.spend(phase, seconds)
        self.timeline.optimizer_ended(1, self.now)


class FakeNode:
    """A live host with the processes that the test names: process id to the variables and arguments it has."""

    name = "a"
    live = True

    def __init__(self) -> None:
        self.processes: dict[int, tuple[dict[str, str], list[str]]] = {}
        self.started: dict[int, int] = {}
        self.files: set[str] = set()
        self.hangs: set[str] = set()
        self.reads = 0

    def entries(self, path: str) -> list[str]:
        """The folder of processes."""
        assert path == "/proc"
        return ["self", "meminfo", *map(str, sorted(self.processes))]

    def read(self, path: str, limit_bytes: int = 0) -> bytes:
        """What a process has."""
        self.reads += 1
        pid, name = path.removeprefix("/proc/").split("/")
        environ, arguments = self.processes[int(pid)]
        if "HIDDEN" in environ:
            raise PermissionError(path)
        if name == "stat":
            return f"{pid} (x) S {'0 ' * 18}{self.started.get(int(pid), 5)} {'0 ' * 30}".encode()
        if name == "environ":
            return "\0".join(f"{key}={value}" for key, value in environ.items()).encode()
        return "\0".join(arguments).encode() + b"\0"

    def link(self, path: str) -> str:
        """Where a process started."""
        return "/w"

    def exists(self, path: str) -> bool:
        """Whether a file is there."""
        if path in self.hangs:
            raise HungError(f"exists({path}) has not returned for 2.0 s")
        return path in self.files


@pytest.fixture
def node() -> FakeNode:
    """A host without processes."""
    return FakeNode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of records."""
    path = tmp_path / "records"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def trainer(folder: Path) -> Iterator[Callable[..., Trainer]]:
    """Makes trainers."""
    made: list[Trainer] = []

    def make(rank: int = 0, who: owner.Owner = HERE, **changes: Any) -> Trainer:
        changes = {"rank": rank, "world_size": 4, "local_rank": rank, "local_world_size": 4, **changes}
        made.append(Trainer(folder, who, **changes))
        return made[-1]

    yield make
    for one in made:
        one.writer.close()


@pytest.fixture
def context(folder: Path, node: Any) -> Context:
    """What a collector of the job `j` is given; its clock is SimpleNamespace-like and can be moved."""
    clock: Any = SimpleNamespace(now=time.monotonic())
    clock.monotonic = lambda: clock.now
    clock.unix = lambda: clock.now + time.time() - time.monotonic()
    return Context(node, clock=clock, job="j", record_folders=(folder,))
