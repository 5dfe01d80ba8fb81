from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aidiag.collectors.process.cgroup import folders, parse_membership, parse_mounts


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
