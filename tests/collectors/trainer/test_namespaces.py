"""Namespaces of other processes, from a folder that plays /proc."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aidiag.collectors.namespaces import SEARCH_SECONDS, Namespaces
from aidiag.trainer_shim.owner import Owner

BOOT = "0" * 32


class Proc:
    """A folder like /proc. Namespaces are files, told apart by their inodes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "sys/kernel/random").mkdir(parents=True)
        (path / "sys/kernel/random/boot_id").write_text(BOOT + "\n")
        self.spaces = path / "spaces"
        self.spaces.mkdir()
        for name in ("host", "container", "other"):
            (self.spaces / name).touch()
        self.add("self", "host", "host", [os.getpid()], 5)

    def inode(self, space: str) -> int:
        """The number of a namespace."""
        return (self.spaces / space).stat().st_ino

    def add(self, pid: object, mounts: str, pids: str, numbers: list[int], ticks: int) -> None:
        """A process."""
        folder = self.path / str(pid)
        (folder / "ns").mkdir(parents=True)
        (folder / "ns" / "mnt").hardlink_to(self.spaces / mounts)
        (folder / "ns" / "pid").hardlink_to(self.spaces / pids)
        (folder / "status").write_text("Name:\tx\nNSpid:\t" + "\t".join(map(str, numbers)) + "\nThreads: 1\n")
        fields = ["S", *["0"] * 18, str(ticks), *["0"] * 30]
        (folder / "stat").write_text(f"{numbers[0]} (x) {' '.join(fields)}\n")


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    """A host with two containers: one has a process of rank 1 in it, of the other nothing is seen."""
    made = Proc(tmp_path / "proc")
    made.add(10, "host", "host", [10], 1)
    made.add(20, "container", "container", [20, 1], 100)
    made.add(21, "container", "container", [21, 2], 200)
    return made


def test_private_mounts(proc: Proc) -> None:
    """One process for each mount namespace that is not ours."""
    assert [20] == Namespaces(str(proc.path)).private_mounts()


def test_processes_of_a_container(proc: Proc) -> None:
    """A process is found by its number in its container, if it started when it should have."""
    spaces = Namespaces(str(proc.path))
    inside = Owner(BOOT, proc.inode("container"), 2, 200)

    assert (21, True) == (spaces.host_pid(inside), spaces.alive(inside))
    assert (None, False) == (spaces.host_pid(inside._replace(start_ticks=1)), spaces.alive(inside._replace(pid=9)))
    assert spaces.alive(inside._replace(boot_id="1" * 32)) is False
    assert (10, True) == (
        spaces.host_pid(Owner(BOOT, proc.inode("host"), 10, 1)),
        spaces.alive(Owner(BOOT, proc.inode("host"), 10, 1)),
    )


def test_a_container_that_cannot_be_seen(proc: Proc) -> None:
    """Of a namespace without a process in sight nothing is known; one that was in sight has ended with its last."""
    now = 0.0
    spaces = Namespaces(str(proc.path), lambda: now)
    unseen = Owner(BOOT, proc.inode("other"), 1, 1)
    assert spaces.alive(unseen) is None
    proc.add(30, "other", "other", [30, 1], 1)
    now += 2
    assert spaces.alive(unseen) is True
    (proc.path / "30").rename(proc.path / "gone")
    now += SEARCH_SECONDS

    assert spaces.alive(unseen) is False


def test_processes_are_looked_at_once(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search looks at new processes only, and at all of them now and then."""
    now = 0.0
    spaces = Namespaces(str(proc.path), lambda: now)
    looks: list[int] = []
    look = Namespaces._look

    def counted(self: Namespaces, pid: int) -> object:
        looks.append(pid)
        return look(self, pid)

    monkeypatch.setattr(Namespaces, "_look", counted)
    for _ in range(12):
        spaces.private_mounts()
        now += SEARCH_SECONDS

    assert {10: 3, 20: 3, 21: 3} == {pid: looks.count(pid) for pid in looks}
