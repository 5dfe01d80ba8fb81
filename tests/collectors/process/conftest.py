from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from aidiag.collectors.collector import Context
from aidiag.collectors.observation import Absent, Event, Observation, Sample
from aidiag.collectors.process import ProcessCollector
from aidiag.collectors.process.cgroup import folders, parse_membership, parse_mounts
from aidiag.collectors.process.files import parse_stat
from aidiag.collectors.process.ranks import RankProcess


class FolderNode:
    """A node whose files lie below a folder; `/` and `live` make it this machine."""

    def __init__(self, root: Path, *, live: bool) -> None:
        self.root, self.live, self.name = root, live, "host-a"
        self.reads = 0

    def read(self, path: str, limit_bytes: int = 1 << 20) -> bytes:
        """The first bytes of a file."""
        self.reads += 1
        with (self.root / path.lstrip("/")).open("rb") as file:
            return file.read(limit_bytes)

    def text(self, path: str) -> str:
        """A small text file."""
        return self.read(path).decode(errors="backslashreplace").rstrip()

    def entries(self, path: str) -> Sequence[str]:
        """The names in a folder."""
        return sorted(os.listdir(self.root / path.lstrip("/")))  # noqa: PTH208

    def link(self, path: str) -> str:
        """Where a link points."""
        return os.readlink(self.root / path.lstrip("/"))  # noqa: PTH115


class Watch:
    """A process collector over a list of ranks that the test changes, and all that it has said."""

    def __init__(self, node: Any, host_folder: Path | None = None) -> None:
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
def folder_node() -> Callable[..., FolderNode]:
    """Makes a recorded node of a folder."""
    return lambda root, live=False: FolderNode(root, live=live)


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Callable[..., Watch]]:
    """Makes a process collector on this machine."""
    made: list[Watch] = []

    def make(node: Any = None, host_folder: Path | None = None) -> Watch:
        made.append(Watch(node or FolderNode(Path("/"), live=True), host_folder))
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
