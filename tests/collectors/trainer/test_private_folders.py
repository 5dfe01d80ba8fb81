"""Folders of records in the mounts of containers: opened through a helper, and only where they lie in memory."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aidiag.collectors.errors import HungError
from aidiag.collectors.private_folders import LOOK_SECONDS, PrivateFolders
from aidiag.collectors.records import RecordFinder


@pytest.fixture
def memory() -> Iterator[Path]:
    """The root of a container that lies on a tmpfs, with the folders of two users and other things."""
    root = Path(tempfile.mkdtemp(prefix="aidiag-test-", dir="/dev/shm"))
    (root / "dev/shm/aidiag-7").mkdir(parents=True)
    (root / "dev/shm/aidiag-x").mkdir()
    (root / "dev/shm/aidiag-8").symlink_to(root)
    (root / "run/aidiag/u/9").mkdir(parents=True)
    (root / "chosen").mkdir()
    yield root
    shutil.rmtree(root)


@pytest.fixture
def proc(tmp_path: Path, memory: Path) -> Path:
    """A folder like /proc with process 7, whose root is in memory, and process 8, whose root is on a disk."""
    for pid, root in (("7", memory), ("8", tmp_path / "disk")):
        (tmp_path / "proc" / pid).mkdir(parents=True)
        (tmp_path / "proc" / pid / "root").symlink_to(root)
        shutil.copyfile("/proc/self/mountinfo", tmp_path / "proc" / pid / "mountinfo")
    shutil.copytree(memory, tmp_path / "disk", symlinks=True)
    return tmp_path / "proc"


def paths(private: PrivateFolders, pids: Sequence[int]) -> list[str]:
    """The folders of processes, without the place of the test."""
    found = []
    for folder in private.folders(lambda: pids):
        found.append(folder.path.rpartition("/proc/")[2])
        folder.close()
    return found


def test_folders_in_memory(proc: Path) -> None:
    """The folders of all users are found, and the one that was chosen; a link is none, nor what lies on a disk."""
    private = PrivateFolders(str(proc), chosen="/chosen")

    assert ["7/root/chosen", "7/root/run/aidiag/u/9", "7/root/dev/shm/aidiag-7"] == paths(private, [7, 8, 9])
    private.close()
    assert [] == paths(private, [])


def test_they_stay_open(proc: Path, memory: Path) -> None:
    """In between the folders are not looked for again, and each is the one that was opened, whatever lies there now."""
    now = 0.0
    private = PrivateFolders(str(proc), clock=lambda: now)
    assert 2 == len(paths(private, [7]))
    (memory / "dev/shm/aidiag-7").rename(memory / "dev/shm/aidiag-6")
    assert ["7/root/run/aidiag/u/9", "7/root/dev/shm/aidiag-7"] == paths(private, [7])
    now += LOOK_SECONDS

    assert ["7/root/run/aidiag/u/9", "7/root/dev/shm/aidiag-6"] == paths(private, [7])
    private.close()


def test_a_file_system_that_does_not_answer(proc: Path) -> None:
    """The folders of a process whose root hangs are left out, those of others are there; we touch no root ourselves."""
    asked: list[tuple[str, str]] = []

    def ask(resource: str, verb: str, process: str, wanted: list[str]) -> Any:
        asked.append((resource, verb))
        if process.endswith("/8"):
            raise HungError("open(/proc/8/root/dev/shm) has not returned for 2.0 s")
        facts = proc.stat()
        return {"value": [["/dev/shm/aidiag-7", str(proc), facts.st_dev, facts.st_ino]]}

    helpers: Any = SimpleNamespace(ask=ask, close=lambda: None)
    shutil.rmtree(proc / "7")

    assert ["7/root/dev/shm/aidiag-7"] == paths(PrivateFolders(str(proc), helpers=helpers), [8, 7])
    assert [("the root of process 8", "hold"), ("the root of process 7", "hold")] == asked


def test_a_folder_that_was_let_go(proc: Path) -> None:
    """What the helper holds under the number now is another folder than it told of: it is not taken."""
    helpers: Any = SimpleNamespace(ask=lambda *_: {"value": [["/dev/shm/aidiag-7", str(proc), 1, 1]]})

    assert [] == paths(PrivateFolders(str(proc), helpers=helpers), [7])


def test_no_helper_without_containers(folder: Path) -> None:
    """Where no process has mounts of its own, and where folders are given, no helper is started."""
    finder = RecordFinder([folder])
    finder.find()

    assert finder._private._helpers is None
    private = PrivateFolders()
    assert [] == paths(private, [])
    assert private._helpers is None
