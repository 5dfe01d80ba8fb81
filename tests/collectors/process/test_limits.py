"""The limits of a rank from a recorded node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aidiag.collectors.process.ranks import RankProcess
from aidiag.collectors.recorded import RecordedNode

FILES = {
    "proc/self/mountinfo": "34 1 0:34 / /sys/fs/cgroup rw shared:1 - cgroup2 cgroup2 rw\n",
    "proc/77/stat": "77 (python3) S 1 " + "0 " * 15 + "5 0 4711 0 100\n",
    "proc/77/status": "Name:\tpython3\nCpus_allowed_list:\t0-3,8-11\n",
    "proc/77/limits": "Max open files            1024                 4096                 files\n",
    "proc/77/cgroup": "0::/pod\n",
    "proc/77/fd/0": "",
    "proc/77/fd/1": "",
    "sys/fs/cgroup/pod/memory.max": "1000000\n",
    "sys/fs/cgroup/pod/memory.current": "900000\n",
    "sys/fs/cgroup/pod/memory.stat": "inactive_file 100000\n",
    "sys/fs/cgroup/pod/memory.events": "oom_kill 4\n",
    "sys/fs/cgroup/pod/cpu.stat": "throttled_usec 1500000\n",
}


def look(watch: Callable[..., Any], folder: Path, **changes: str | None) -> Any:
    """One reading of the recorded rank; `changes` replace files by the last parts of their paths, or leave them out."""
    for path, text in FILES.items():
        new = changes.get(path.rsplit("/", 1)[1].replace(".", "_"), text)
        if new is not None:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(new)
    if "cpu_max" in changes:
        (folder / "sys/fs/cgroup/pod/cpu.max").write_text(changes["cpu_max"] or "")
    seen = watch(RecordedNode(folder))
    seen.ranks = [RankProcess("job", 0, "host-a", 77, 4711)]
    seen.collect()
    return seen


def test_all_limits(watch: Callable[..., Any], tmp_path: Path) -> None:
    """Everything that limits a rank, from the files of its process and its cgroup."""
    seen = look(watch, tmp_path)
    assert seen.values("rank_cpus_allowed") == [8]
    assert seen.values("rank_open_files") == [2] and seen.values("rank_open_files_limit") == [1024]
    assert seen.values("rank_memory_limit_bytes") == [1e6] and seen.values("rank_memory_used_bytes") == [8e5]
    assert seen.values("rank_oom_kills_total") == [4]
    assert seen.values("rank_cpu_throttled_seconds_total") == [1.5]
    assert seen.values("rank_threads") == [5] and seen.values("rank_process_state") == ["sleeping"]


@pytest.mark.parametrize(("quota", "cpus"), [("150000 100000", 1.5), ("max 100000", 8), ("2000000 100000", 8)])
def test_cpus_by_quota(watch: Callable[..., Any], tmp_path: Path, quota: str, cpus: float) -> None:
    """The quota counts where it is below the number of CPUs of the mask."""
    assert look(watch, tmp_path, cpu_max=quota).values("rank_cpus_allowed") == [cpus]


def test_limits_that_are_not_there(watch: Callable[..., Any], tmp_path: Path) -> None:
    """No limit is absent without anything being amiss, and files that are missing give neither zero nor unlimited."""
    seen = look(watch, tmp_path, memory_max="max\n", status=None, limits=None)
    (absent,) = seen.absences("rank_memory_limit_bytes")
    assert not absent.expected and not seen.values("rank_memory_limit_bytes")
    assert seen.values("rank_memory_used_bytes") == [8e5]
    assert not seen.values("rank_cpus_allowed") and not seen.values("rank_open_files_limit")


def test_no_cgroup(watch: Callable[..., Any], tmp_path: Path) -> None:
    """Without a cgroup that can be read, its use is absent."""
    seen = look(watch, tmp_path, cgroup="0::/../elsewhere\n")
    assert seen.absences("rank_memory_used_bytes") and not seen.values("rank_memory_used_bytes")
    assert not seen.values("rank_cpu_throttled_seconds_total") and seen.values("rank_cpus_allowed") == [8]
