"""Ranks of other users and of other PID namespaces: what is seen of them, and why the rest is not."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aidiag.collectors.live import LiveNode
from aidiag.collectors.observation import Absent, Sample
from aidiag.collectors.process.ranks import LocalPids, RankProcess, pid_namespace
from aidiag.collectors.recorded import RecordedNode

Start = Callable[..., Any]

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
SLEEPER = "import sys; print('up', flush=True); sys.stdin.readline(); sys.exit(3)"


def as_nobody(job: Callable[[], object], *, hidepid: bool = False) -> Any:
    """What `job` gives when an unprivileged user runs it, in a copy of this process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if hidepid:
                libc = ctypes.CDLL(None, use_errno=True)
                assert libc.unshare(0x20000) == 0, os.strerror(ctypes.get_errno())
                assert libc.mount(b"none", b"/", None, 0x44000, None) == 0
                assert libc.mount(b"proc", b"/proc", b"proc", 0, b"hidepid=2") == 0
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            os.write(writer, json.dumps(job()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return json.loads(answer)


@needs_root
def test_another_users_rank(watch: Start, python: Start, recorded: Start) -> None:
    """Of another user's rank, state, CPU time and memory are seen; open files are absent with a reason and a remedy."""
    process = python(SLEEPER)
    seen = watch()
    seen.ranks = [recorded(process.pid)]

    def look() -> object:
        seen.collect()
        (absent,) = seen.absences("rank_open_files")
        return [seen.values("rank_process_state"), seen.values("rank_threads"), absent.reason, absent.remedy]

    states, threads, reason, remedy = as_nobody(look)
    assert states[0] in ("sleeping", "running") and threads == [1]
    assert reason == f"/proc/{process.pid}/fd: Permission denied" and "as the user of the job" in remedy


@needs_root
def test_exit_of_another_users_rank(watch: Start, python: Start, recorded: Start) -> None:
    """The exit status that the kernel hides from other users is never taken for exit code 0."""
    process = python(SLEEPER)
    seen = watch()
    seen.ranks = [recorded(process.pid)]

    def look() -> object:
        seen.collect()
        process.stdin.write("end with status 3\n")
        process.stdin.flush()
        seen.until(lambda: seen.events("rank_exited"))  # still a zombie: its parent waits for this copy of itself
        return [[dict(event.fields) for event in seen.events("rank_exited")], seen.values("rank_exit_code")]

    events, codes = as_nobody(look)
    assert events == [{"pid": process.pid, "host_pid": process.pid}]
    assert codes == []


@needs_root
def test_hidden_rank(watch: Start, python: Start, recorded: Start) -> None:
    """Where /proc hides a rank of another user, it is absent with the reason, and not taken for gone."""
    process = python(SLEEPER)
    seen = watch()
    seen.ranks = [recorded(process.pid)]

    def look() -> object:
        for _ in range(3):
            seen.collect()
        return [
            [fact.reason for fact in seen.said if isinstance(fact, Absent) and fact.signal == "rank_process_state"],
            len([fact for fact in seen.said if isinstance(fact, Sample)]),
            len(seen.events("rank_exited")),
        ]

    reasons, samples, exits = as_nobody(look, hidepid=True)
    assert reasons == [f"process {process.pid} runs, and /proc does not show it"] * 3
    assert samples == 0 and exits == 0


CONTAINER = """
import os, sys, time
pid = os.fork()
if pid == 0:
    time.sleep(600)
start = open("/proc/self/stat").read().rpartition(")")[2].split()[19]
inode = os.readlink("/proc/self/ns/pid")[5:-1]
print(os.getpid(), pid, start, inode, flush=True)
for line in sys.stdin:
    os._exit(int(line))
"""


@pytest.fixture
def container() -> Any:
    """A rank that is process 1 of a PID namespace of its own, with one worker: (program, its record)."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("a PID namespace needs root and unshare(1)")
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-I", "-S", "-c", CONTAINER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout and program.stdin
        pid, worker, start, inode = map(int, program.stdout.readline().split())
        yield program, RankProcess("job", 2, "host-a", pid, start, inode, (worker,), attached_unix=None)
        program.kill()


def test_rank_in_a_container(container: Any, watch: Start) -> None:
    """A rank in another PID namespace is found by its number there, its worker too, and its exit code is known."""
    program, rank = container
    assert rank.pid == 1
    seen = watch()
    seen.ranks = [rank]
    seen.collect()
    assert seen.values("rank_process_state")[0] in ("sleeping", "running")
    assert seen.values("rank_loader_workers_alive") == [1]
    program.stdin.write("5\n")
    program.stdin.flush()
    seen.until(lambda: seen.events("rank_exited"))
    fields = seen.events("rank_exited")[0].fields
    assert fields["exit_code"] == 5 and fields["pid"] == 1 and fields["host_pid"] not in (1, program.pid)


def test_rank_that_cannot_be_found(watch: Start, tmp_path: Path) -> None:
    """A rank of a PID namespace that is not to be seen from here is absent with a remedy, and never called gone."""
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/pid").symlink_to("pid:[4026532001]")
    seen = watch(RecordedNode(tmp_path))
    seen.ranks = [RankProcess("job", 0, "host-a", 7, 99, pid_namespace=4026532777)]
    seen.collect()
    seen.collect()
    (first, _) = seen.absences("rank_process_state")
    assert first.reason == "process 7 of PID namespace 4026532777 cannot be seen from here"
    assert "PID namespace" in first.remedy
    assert not seen.values("rank_process_state") and not seen.events("rank_exited")


def test_own_namespace(tmp_path: Path) -> None:
    """The PID namespace is the inode of the link, and not known where there is no link."""
    inode = pid_namespace(LiveNode())
    assert inode == Path("/proc/self/ns/pid").stat().st_ino
    (tmp_path / "proc").mkdir()
    assert pid_namespace(RecordedNode(tmp_path)) is None


def test_host_processes_shown_in_a_container(tmp_path: Path) -> None:
    """Where /proc is the host's and we are below it, its numbers are the host's, not those of our own namespace."""
    for process, namespace in (("self", 4026532001), ("1", 4026531836), ("4711", 4026532777)):
        (tmp_path / "proc" / process / "ns").mkdir(parents=True)
        (tmp_path / "proc" / process / "ns/pid").symlink_to(f"pid:[{namespace}]")
    (tmp_path / "proc/self/status").write_text("Name:\tpython\nNSpid:\t9000\t12\n")
    (tmp_path / "proc/4711/status").write_text("Name:\tpython\nNSpid:\t4711\t12\n")
    pids = LocalPids(RecordedNode(tmp_path))
    assert pids.is_ours(4026531836) and not pids.is_ours(4026532001) and not pids.is_ours(4026532777)
    assert pids.find({(4026532777, 12), (4026532777, 13)}) == {(4026532777, 12): 4711}
