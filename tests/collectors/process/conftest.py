from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aidiag.collectors.collector import Context
from aidiag.collectors.live import LiveNode
from aidiag.collectors.node import Node
from aidiag.collectors.observation import Absent, Event, Observation, Sample
from aidiag.collectors.process import ProcessCollector
from aidiag.collectors.process.cgroup import folders, parse_membership, parse_mounts
from aidiag.collectors.process.files import parse_stat
from aidiag.collectors.process.ranks import RankProcess


class Watch:
    """A process collector over a list of ranks that the test changes, and all that it has said."""

    def __init__(self, node: Node, host_folder: Path | None = None) -> None:
        self.ranks: list[RankProcess] = []
        self.said: list[Observation] = []
        self.collector = ProcessCollector(Context(node, host_folder=host_folder), lambda: self.ranks)

    def collect(self) -> list[Observation]:
        """One reading."""
        found = list(self.collector.collect())
        self.said += found
        return found

    def until(self, condition: Callable[[], object], seconds: float = 20.0) -> None:
        """Collect until the condition holds; it never comes to hold: the test fails."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"never came; said {[fact for fact in self.said if type(fact) is Event]}"
            self.collect()
            time.sleep(0.02)

    def events(self, kind: str) -> list[Event]:
        """All events of a kind so far."""
        return [fact for fact in self.said if isinstance(fact, Event) and fact.kind == kind]

    def values(self, signal: str) -> list[Any]:
        """All values of a signal so far, in order."""
        return [fact.value for fact in self.said if isinstance(fact, Sample) and fact.signal == signal]

    def absences(self, signal: str) -> list[Absent]:
        """Why a signal was absent so far."""
        return [fact for fact in self.said if isinstance(fact, Absent) and fact.signal == signal]


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Callable[..., Watch]]:
    """Makes a process collector on this machine."""
    made: list[Watch] = []

    def make(node: Node | None = None, host_folder: Path | None = None) -> Watch:
        made.append(Watch(node or LiveNode(name="host-a"), host_folder))
        return made[-1]

    yield make
    for one in made:
        one.collector.close()


def rank_of(pid: int, rank: int = 0, **more: Any) -> RankProcess:
    """The record of a running process."""
    stat = parse_stat(Path(f"/proc/{pid}/stat").read_bytes())
    return RankProcess("job", rank, "host-a", pid, more.pop("start_ticks", stat.start_ticks), **more)


@pytest.fixture
def recorded() -> Callable[..., RankProcess]:
    """Makes the record of a running process."""
    return rank_of


@pytest.fixture
def python() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a Python program whose first line of output is awaited, and ends it with the test."""
    started: list[subprocess.Popen[str]] = []

    def start(program: str, *, ready: bool = True) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        if ready:
            assert process.stdout
            process.first_line = process.stdout.readline().strip()  # type: ignore[attr-defined]
        return process

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with all that it started
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]


@pytest.fixture
def memory_cgroup() -> Iterator[Callable[[int], Path]]:
    """Makes a memory cgroup of this machine with a limit in bytes; skips where that is not allowed."""
    made: list[Path] = []

    def make(limit_bytes: int) -> Path:
        mounts = parse_mounts(Path("/proc/self/mountinfo").read_text())
        membership = parse_membership(Path("/proc/self/cgroup").read_text())
        for controller, name in (("memory", "memory.limit_in_bytes"), ("", "memory.max")):
            for parent in folders(mounts, membership, controller)[:1]:
                folder = Path(parent) / f"aidiag-test-{os.getpid()}-{len(made)}"
                with contextlib.suppress(OSError):
                    folder.mkdir()
                    made.append(folder)
                    (folder / name).write_text(str(limit_bytes))
                    return folder
        pytest.skip("no memory cgroup can be made here")

    yield make
    for folder in made:
        for pid in (folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (folder.parent / "cgroup.procs").write_text(pid)
        folder.rmdir()
