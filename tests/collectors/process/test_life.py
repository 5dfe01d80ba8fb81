"""Real processes: how ranks and loader workers live and end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aidiag.collectors.process.exits import PIDFD_INFO_EXIT, Exit, ExitWatcher, reaped_status
from aidiag.collectors.process.files import parse_stat
from aidiag.collectors.run_files import ProcessMark, RunFile, encode_run, name_of

Start = Callable[..., Any]

SLEEPER = "import time; print('up', flush=True); time.sleep(600)"

LAUNCHER = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-I", "-S", "-c", {program!r}])
print(child.pid, flush=True)
while child.poll() is None:
    time.sleep(0.3)
time.sleep(600)
"""
"""Starts a process and looks from time to time whether it has ended, as torchrun does with its ranks."""


def keeps_status_of_the_reaped() -> bool:
    """Whether this kernel tells the exit status of a process that was waited for (Linux 6.15)."""
    process = subprocess.Popen(["true"])
    pidfd = os.pidfd_open(process.pid)
    process.wait()
    status = reaped_status(pidfd)
    os.close(pidfd)
    return status is not None


def test_killed_child_of_another_process(watch: Start, python: Start, recorded: Start) -> None:
    """A rank that another process started and that dies by SIGKILL is told with its signal, once."""
    launcher = python(LAUNCHER.format(program="import sys; sys.stdin.read()"))
    rank = int(launcher.first_line)
    seen = watch()
    seen.ranks = [recorded(rank, 3, training=True)]
    seen.collect()
    os.kill(rank, signal.SIGKILL)
    seen.until(lambda: seen.events("rank_exited"))
    for _ in range(3):
        seen.collect()
    (event,) = seen.events("rank_exited")
    assert event.subject.name == "3" and event.subject.host == "host-a"
    assert {**event.fields, "oom_killed": False} == {
        "pid": rank, "host_pid": rank, "exit_code": -9, "signal": 9, "signal_name": "SIGKILL", "during_training": True,
        "oom_killed": False,
    }  # fmt: skip
    assert seen.values("rank_exit_code")[-1] == -9
    assert seen.values("rank_process_state")[0] in ("sleeping", "running")
    seen.until(lambda: seen.values("rank_process_state")[-1] == "gone")  # until then a zombie of the launcher


@pytest.mark.parametrize(("end", "code"), [("sys.exit(1)", 1), ("sys.exit(0)", 0), ("os.abort()", -6)])
def test_exit_codes(watch: Start, python: Start, recorded: Start, end: str, code: int) -> None:
    """The exit code of a rank that somebody else started is known, be it 0, 1 or a signal."""
    launcher = python(LAUNCHER.format(program=f"import os, sys; sys.stdin.readline(); {end}"))
    seen = watch()
    seen.ranks = [recorded(int(launcher.first_line))]
    seen.collect()
    launcher.stdin.write("go\n")
    launcher.stdin.flush()
    seen.until(lambda: seen.events("rank_exited"))
    fields = seen.events("rank_exited")[0].fields
    assert fields["exit_code"] == code and fields["signal"] == max(0, -code)
    assert ("signal_name" in fields) is (code < 0)
    assert seen.values("rank_exit_code") == [code]


def test_living_rank_has_not_exited(watch: Start, python: Start, recorded: Start) -> None:
    """A rank that lives gives no event and no exit code."""
    seen = watch()
    seen.ranks = [recorded(python(SLEEPER).pid)]
    for _ in range(5):
        seen.collect()
    assert not seen.events("rank_exited") and not seen.values("rank_exit_code")
    assert set(seen.values("rank_process_state")) <= {"sleeping", "running"}


def test_status_read_after_the_parent_took_it(python: Start) -> None:
    """Where the parent was quicker, the kernel still tells the status through the pidfd (Linux 6.15)."""
    if not keeps_status_of_the_reaped():
        pytest.skip("this kernel does not keep the exit status of a process that was waited for")
    process = subprocess.Popen(["sh", "-c", "exit 7"])
    pidfd = os.pidfd_open(process.pid)
    process.wait()
    assert reaped_status(pidfd) == 7 << 8
    os.close(pidfd)
    assert PIDFD_INFO_EXIT == 8


def test_status_not_known(watch: Start, python: Start, recorded: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A status that nobody can read any more is told as missing with the reason, never as 0."""
    monkeypatch.setattr("aidiag.collectors.process.exits.reaped_status", lambda pidfd: None)
    monkeypatch.setattr("aidiag.collectors.process.exits._read_stat", _gone_after_first())
    launcher = python(LAUNCHER.format(program="import sys; sys.stdin.read()"))
    rank = int(launcher.first_line)
    seen = watch()
    seen.ranks = [recorded(rank)]
    seen.collect()
    os.kill(rank, signal.SIGKILL)
    seen.until(lambda: seen.events("rank_exited"))
    (event,) = seen.events("rank_exited")
    assert "exit_code" not in event.fields and "signal" not in event.fields
    assert not seen.values("rank_exit_code")
    assert "before it could be read" in seen.absences("rank_exit_code")[0].reason


def _gone_after_first() -> Callable[[int], Any]:
    from aidiag.collectors.process import exits

    real, asked = exits._read_stat, []

    def read(pid: int) -> Any:
        asked.append(pid)
        return real(pid) if len(asked) == 1 else None

    return read


def test_stopped_rank(watch: Start, python: Start, recorded: Start) -> None:
    """A rank under SIGSTOP is stopped, and sleeping again after SIGCONT."""
    process = python(SLEEPER)
    seen = watch()
    seen.ranks = [recorded(process.pid)]
    os.kill(process.pid, signal.SIGSTOP)
    seen.until(lambda: "stopped" in seen.values("rank_process_state"))
    os.kill(process.pid, signal.SIGCONT)
    seen.until(lambda: seen.values("rank_process_state")[-1] == "sleeping")
    assert not seen.events("rank_exited")


def test_reused_pid_is_not_the_rank(watch: Start, python: Start, recorded: Start) -> None:
    """A process that started at another time than the record says is somebody else: the rank is gone."""
    process = python(SLEEPER)
    seen = watch()
    seen.ranks = [recorded(process.pid, start_ticks=12345)]
    seen.collect()
    assert seen.values("rank_process_state") == ["gone"]
    assert not seen.values("rank_threads") and not seen.events("rank_exited")


def test_end_before_the_first_look(watch: Start, recorded: Start, python: Start) -> None:
    """A rank that came and went between two readings is told; one left over from an earlier job is not."""
    process = python(SLEEPER)
    seen = watch()
    early = recorded(process.pid, 0, attached_unix=1.0)
    late = replace(early, rank=1, attached_unix=seen.collector._since_unix + 0.5)
    process.kill()
    process.wait()
    seen.ranks = [early, late]
    seen.collect()
    assert [event.subject.name for event in seen.events("rank_exited")] == ["1"]


def test_restarted_rank(watch: Start, recorded: Start, python: Start) -> None:
    """Of two incarnations of a rank the newer one is measured, and the end of the older one is told."""
    old = python(SLEEPER)
    seen = watch()
    first = recorded(old.pid)
    seen.ranks = [first]
    seen.collect()
    new = python(SLEEPER)
    seen.ranks = [first, recorded(new.pid)]
    old.terminate()
    seen.until(lambda: seen.events("rank_exited"))
    assert seen.events("rank_exited")[0].fields["signal_name"] == "SIGTERM"
    seen.said.clear()
    seen.collect()
    assert seen.values("rank_process_state")[0] in ("sleeping", "running") and not seen.values("rank_exit_code")


def run_file(folder: Path, pid: int, start_ticks: int, **facts: Any) -> None:
    """What an `aidiag run` has written."""
    run = RunFile("1", "job", "host-a", ("train",), "/w", 1.0, None, child=ProcessMark(pid, start_ticks, 0, ""))
    (folder / name_of("1")).write_bytes(encode_run(replace(run, **facts)))


def test_status_from_aidiag_run(watch: Start, recorded: Start, python: Start, tmp_path: Path) -> None:
    """A status that `aidiag run` wrote is used, and waited for while it is not there yet."""
    process = python(SLEEPER)
    seen = watch(host_folder=tmp_path)
    rank = recorded(process.pid, attached_unix=seen.collector._since_unix + 1)
    run_file(tmp_path, process.pid, rank.start_ticks)
    process.kill()
    process.wait()
    seen.ranks = [rank]
    seen.collect()
    assert not seen.events("rank_exited")
    run_file(tmp_path, process.pid, rank.start_ticks, exit_status=139, ended=2.0)
    seen.collect()
    assert seen.events("rank_exited")[0].fields["exit_code"] == -11
    assert seen.events("rank_exited")[0].fields["signal_name"] == "SIGSEGV"
    assert seen.values("rank_exit_code") == [-11]


def test_run_that_never_tells(watch: Start, recorded: Start, python: Start, tmp_path: Path) -> None:
    """A run that dies with its rank does not hold the event back for ever."""
    process = python(SLEEPER)
    seen = watch(host_folder=tmp_path)
    seen.ranks = [recorded(process.pid, attached_unix=seen.collector._since_unix + 1)]
    run_file(tmp_path, process.pid, seen.ranks[0].start_ticks)
    process.kill()
    process.wait()
    for _ in range(4):
        seen.collect()
    (event,) = seen.events("rank_exited")
    assert "exit_code" not in event.fields


def test_readiness_that_came_too_late(python: Start) -> None:
    """News of a pidfd that was closed, whose number now stands for a process that lives, ends nothing."""
    process = python(SLEEPER)
    watcher = ExitWatcher(time.monotonic)
    assert watcher.watch(parse_stat(Path(f"/proc/{process.pid}/stat").read_bytes()))
    ((pidfd, watched),) = watcher._watched.items()
    with watcher._lock:
        watcher._ended(pidfd, watched, last=True)
    assert watcher.take() == [] and watched.ended_at is None
    process.kill()
    ends: list[Exit] = []
    end = time.monotonic() + 20
    while not ends and time.monotonic() < end:
        ends = watcher.take()
        time.sleep(0.02)
    watcher.close()
    assert [(one.pid, one.status) for one in ends] == [(process.pid, 9)]
