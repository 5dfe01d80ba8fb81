"""Real jobs that run out of shared memory, and out of the memory of their control group."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aidiag.collectors.process.cgroup import folders, parse_membership, parse_mounts
from tests.real_logs import jobs
from tests.real_parts import missing, require

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

MIB = 1 << 20


@pytest.fixture
def memory_limit() -> Iterator[Callable[[int], Path]]:
    """Makes a control group with a memory limit in bytes; skips where that is not allowed."""
    made: list[Path] = []

    def make(limit_bytes: int) -> Path:
        mounts = parse_mounts(Path("/proc/self/mountinfo").read_text())
        membership = parse_membership(Path("/proc/self/cgroup").read_text())
        for controller, name in (("memory", "memory.limit_in_bytes"), ("", "memory.max")):
            for parent in folders(mounts, membership, controller)[:1]:
                folder = Path(parent) / f"aidiag-test-{os.getpid()}-real"
                with contextlib.suppress(OSError):
                    folder.mkdir()
                    made.append(folder)
                    (folder / name).write_text(str(limit_bytes))
                    return folder
        missing("no memory control group can be made here")

    yield make
    for folder in made:
        folder.rmdir()


def test_shared_memory_that_is_full(tmp_path: Path) -> None:
    """Loader workers of a job whose /dev/shm is a few megabytes die of a bus error."""
    if os.geteuid() != 0:
        missing("a /dev/shm of one's own needs root")
    require("unshare")
    log = tmp_path / "job.log"
    small = 'mount -t tmpfs -o size=4m tmpfs /dev/shm && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", small, "sh", *jobs.torchrun("large_batches")]
    assert jobs.run(command, log) != 0
    report = jobs.judged(log)
    assert jobs.verdict(report)[0] == "shm_too_small", log.read_text()
    jobs.assert_true_evidence(report, log)


def test_a_rank_beyond_the_memory_of_its_control_group(memory_limit: Callable[[int], Path], tmp_path: Path) -> None:
    """With the kernel's log the memory limit is the cause; the job's log alone only shows that the rank was killed, and
    says what would decide.
    """
    group, log, kernel = memory_limit(1100 * MIB), tmp_path / "job.log", tmp_path / "dmesg.txt"
    inside = f'echo $$ > {group}/cgroup.procs && exec "$@"'
    assert jobs.run(["sh", "-c", inside, "sh", *jobs.torchrun("eats_memory")], log) != 0
    report = jobs.judged(log)
    assert jobs.verdict(report) == ("rank_killed", (1,)), log.read_text()
    read = subprocess.run(["dmesg"], capture_output=True, text=True, check=False)
    lines = read.stdout.splitlines()
    begins = [number for number, line in enumerate(lines) if "oom-killer" in line]
    if read.returncode != 0 or not any(group.name in line for line in lines[begins[-1] :] if begins):
        missing("the kernel's log cannot be read here")
    kernel.write_text("\n".join(lines[begins[-1] :]) + "\n")
    report = jobs.judged(log, kernel)
    assert jobs.verdict(report)[0] == "oom_host_killed"
    jobs.assert_true_evidence(report, log, kernel)
