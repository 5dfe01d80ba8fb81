"""The kernel's OOM killer at work in a small cgroup of this machine."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aidiag.collectors.collector import Context
from aidiag.collectors.errors import NotPermittedError
from aidiag.collectors.kmsg import KmsgCollector
from aidiag.collectors.live import LiveNode
from aidiag.collectors.observation import Event

MIB = 1 << 20


def test_killed_rank(
    memory_cgroup: Callable[[int], Path],
    watch: Callable[..., Any],
    python: Callable[..., Any],
    recorded: Callable[..., Any],
) -> None:
    """A rank that the kernel kills for its memory is told as SIGKILL, and its cgroup counts one kill more."""
    folder = memory_cgroup(24 * MIB)
    rank = python("import sys; print(flush=True); sys.stdin.readline(); kept = bytearray(64 << 20); print(1)")
    small = python("import time; print(flush=True); time.sleep(600)")
    for process in (rank, small):
        (folder / "cgroup.procs").write_text(str(process.pid))
    seen = watch()
    seen.ranks = [recorded(rank.pid, 0), recorded(small.pid, 1)]
    seen.collect()
    assert seen.values("rank_memory_limit_bytes") == [24 * MIB, 24 * MIB]
    assert seen.values("rank_oom_kills_total") == [0, 0]
    rank.stdin.write("go\n")
    rank.stdin.flush()
    seen.until(lambda: seen.events("rank_exited"))
    assert [event.fields.get("signal_name") for event in seen.events("rank_exited")] == ["SIGKILL"]
    assert seen.events("rank_exited")[0].subject.name == "0"
    seen.said.clear()
    seen.collect()
    assert seen.values("rank_oom_kills_total") == [1]
    small.kill()
    small.wait()


def test_line_of_the_kernel(memory_cgroup: Callable[[int], Path]) -> None:
    """The kernel kills a process in a cgroup of this machine: its number, name and cgroup are told."""
    collector = KmsgCollector(Context(LiveNode()))
    try:
        list(collector.collect())
    except NotPermittedError as error:
        pytest.skip(error.reason)
    folder = memory_cgroup(16 << 20)
    program = "import sys; sys.stdin.readline(); kept = bytearray(64 << 20)"
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", program], stdin=subprocess.PIPE, text=True) as process:
        (folder / "cgroup.procs").write_text(str(process.pid))
        before = time.monotonic()
        process.communicate("go\n")
    assert process.returncode == -9
    found: list[Event] = []
    while not found:
        assert time.monotonic() < before + 20, "the kernel never said it"
        found = [
            event
            for event in collector.collect()
            if isinstance(event, Event) and event.fields.get("pid") == process.pid
        ]
    (event,) = found
    assert event.kind == "host_oom_kill" and str(event.fields["process"]).startswith("python")
    assert str(event.fields["cgroup"]).endswith(folder.name) and event.fields["limit_of"] == "cgroup"
    assert event.time is not None and before - 1 <= event.time <= time.monotonic()
