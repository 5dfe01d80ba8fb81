"""Real processes: what a rank and its loader workers use."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from aidiag.collectors.process.accounts import Account
from aidiag.collectors.process.files import ProcessStat

Start = Callable[..., Any]

FORKER = """
import os, sys, time
pids = []
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        while True: sum(range(1000))
    pids.append(pid)
print(*pids, flush=True)
for line in sys.stdin:
    if line == "reap\\n":
        os.waitpid(-1, 0)
        print("reaped", flush=True)
    elif line.startswith("grow"):
        kept = bytearray(os.urandom(1)) * (int(line.split()[1]) << 20)
        print("grown", flush=True)
    else:
        break
for pid in pids:
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        pass
"""


def test_killed_worker(watch: Start, python: Start, recorded: Start) -> None:
    """A loader worker that dies while its rank lives is told with its signal, and counted out."""
    rank = python(FORKER)
    one, two = map(int, rank.first_line.split())
    seen = watch()
    seen.ranks = [recorded(rank.pid, 5, worker_pids=(one, two))]
    seen.collect()
    assert seen.values("rank_loader_workers_alive") == [2]
    os.kill(one, signal.SIGKILL)
    seen.until(lambda: seen.events("loader_worker_exited"))
    (event,) = seen.events("loader_worker_exited")
    assert event.subject.name == "5"
    told = {"pid": one, "host_pid": one, "exit_code": -9, "signal": 9, "signal_name": "SIGKILL"}
    assert {**told, "oom_killed": False} == {**event.fields, "oom_killed": False}
    assert seen.values("rank_loader_workers_alive")[-1] == 1
    assert not seen.events("rank_exited")
    os.kill(two, signal.SIGKILL)


def test_worker_that_outlives_its_rank(watch: Start, python: Start, recorded: Start) -> None:
    """Workers that end after their rank are its consequence and not told."""
    rank = python(FORKER)
    one, two = map(int, rank.first_line.split())
    seen = watch()
    seen.ranks = [recorded(rank.pid, worker_pids=(one, two))]
    seen.collect()
    rank.kill()
    rank.wait()
    seen.until(lambda: seen.events("rank_exited"))
    os.kill(one, signal.SIGKILL)
    os.kill(two, signal.SIGKILL)
    (followed,) = seen.collector._followed.values()
    seen.until(lambda: not followed._workers)  # both ends have been seen
    assert not seen.events("loader_worker_exited")


def test_cpu_time_of_workers(watch: Start, python: Start, recorded: Start) -> None:
    """CPU time of workers that spin is counted, and stays when a worker has ended and was waited for."""
    rank = python(FORKER)
    one, two = map(int, rank.first_line.split())
    seen = watch()
    seen.ranks = [recorded(rank.pid, worker_pids=(one, two))]
    seen.until(lambda: seen.values("rank_loader_workers_cpu_seconds_total")[-1:] > [0.2])
    os.kill(one, signal.SIGKILL)
    rank.stdin.write("reap\n")
    rank.stdin.flush()
    assert rank.stdout.readline() == "reaped\n"
    seen.until(lambda: seen.values("rank_loader_workers_alive")[-1] == 1)
    for name in ("rank_loader_workers_cpu_seconds_total", "rank_cpu_seconds_total"):
        times = seen.values(name)
        assert times == sorted(times), name
    assert seen.values("rank_cpu_seconds_total")[-1] >= 0.2


def test_memory_grows(watch: Start, python: Start, recorded: Start) -> None:
    """Memory that a rank takes shows in its resident memory."""
    rank = python(FORKER)
    seen = watch()
    seen.ranks = [recorded(rank.pid)]
    seen.collect()
    rank.stdin.write("grow 64\n")
    rank.stdin.flush()
    assert rank.stdout.readline() == "grown\n"
    seen.collect()
    before, after = seen.values("rank_resident_memory_bytes")
    assert 60 << 20 < after - before < 80 << 20


def test_a_process_that_took_the_number_of_a_worker(watch: Start, python: Start, recorded: Start) -> None:
    """A number in the record that now belongs to a process of somebody else is no worker."""
    rank, other = python(FORKER), python("import time; print(flush=True); time.sleep(600)")
    seen = watch()
    seen.ranks = [recorded(rank.pid, worker_pids=(other.pid,))]
    seen.collect()
    assert seen.values("rank_loader_workers_alive") == [0]


def test_open_files_threads_and_cpus(watch: Start, python: Start, recorded: Start) -> None:
    """Threads, open files with their limit and the CPUs of the affinity mask are those of the process."""
    cpu = min(os.sched_getaffinity(0))
    rank = python(
        "import os, resource, threading, time\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (321, 321))\n"
        f"os.sched_setaffinity(0, {{{cpu}}})\n"
        "kept = [os.open('/dev/null', os.O_RDONLY) for _ in range(100)]\n"
        "for _ in range(3): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
        "print(len(os.listdir('/proc/self/fd')) - 1, flush=True); time.sleep(600)"
    )
    seen = watch()
    seen.ranks = [recorded(rank.pid)]
    seen.collect()
    assert seen.values("rank_threads") == [4]
    assert seen.values("rank_open_files") == [int(rank.first_line)]
    assert seen.values("rank_open_files_limit") == [321]
    assert seen.values("rank_cpus_allowed") == [1]


def child(pid: int, cpu: float, state: str = "running") -> ProcessStat:
    """A reading of a process with 1 MiB."""
    return ProcessStat(pid, "python", state, 1, cpu, 0.0, 1, 100 + pid, 1 << 20)


def test_times_never_fall() -> None:
    """CPU times grow on when workers come and go, even when nobody waits for those that ended."""
    account, rank = Account(), child(1, 10.0)
    first = account.add(rank, [child(2, 4.0), child(3, 5.0)], lambda pid: pid != 1)
    second = account.add(rank, [child(3, 6.0), child(4, 1.0)], lambda pid: pid != 1)
    third = account.add(rank, [], lambda pid: pid != 1)
    assert [usage.workers_cpu_seconds for usage in (first, second, third)] == [9.0, 11.0, 11.0]
    assert [usage.cpu_seconds for usage in (first, second, third)] == [19.0, 19.0, 19.0]
    assert first.resident_bytes == 3 << 20 and third.workers_alive == 0


def test_restarted_pid_is_another_worker() -> None:
    """A worker with the number of an earlier one and another start begins at its own CPU time."""
    account, rank = Account(), child(1, 0.0)
    account.add(rank, [child(2, 4.0)], lambda pid: True)
    again = account.add(rank, [replace(child(2, 1.0), start_ticks=9999)], lambda pid: True)
    assert again.workers_cpu_seconds == 5.0
