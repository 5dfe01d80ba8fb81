"""Control groups from recorded trees of both versions, and a real limit where this machine lets us set one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aidiag.collectors.process.cgroup import CgroupMount, folders, parse_membership, parse_mounts
from aidiag.collectors.process.cgroup_limits import CgroupLimits, CpuUse, MemoryUse

MIB = 1 << 20
V2 = "34 1 0:34 / /sys/fs/cgroup rw,relatime shared:1 - cgroup2 cgroup2 rw,nosuid\n"
V1 = (
    "30 24 0:26 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
    "31 24 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
    "32 24 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
)


def tree(root: Path, files: dict[str, str]) -> CgroupLimits:
    """Limits read from a folder with these files; the mounts are in `mountinfo`."""
    for name, text in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return CgroupLimits(lambda path: (root / path.lstrip("/")).read_text(), parse_mounts(files["mountinfo"]))


def test_version_2(tmp_path: Path) -> None:
    """The limit is that of the level with the least room, the use is without droppable cache, kills are the rank's."""
    base = "/sys/fs/cgroup/kubepods.slice"
    limits = tree(tmp_path, {
        "mountinfo": V2,
        f"{base}/memory.max": f"{900 * MIB}\n", f"{base}/memory.current": f"{880 * MIB}\n",
        f"{base}/memory.stat": f"anon 5\ninactive_file {10 * MIB}\n",
        f"{base}/pod1/memory.max": f"{800 * MIB}\n", f"{base}/pod1/memory.current": f"{100 * MIB}\n",
        f"{base}/pod1/memory.stat": "inactive_file 0\n",
        f"{base}/pod1/c/memory.max": "max\n", f"{base}/pod1/c/memory.current": f"{100 * MIB}\n",
        f"{base}/pod1/c/memory.stat": f"inactive_file {60 * MIB}\n",
        f"{base}/pod1/c/memory.events": "low 0\nhigh 0\nmax 4\noom 2\noom_kill 2\n",
        f"{base}/cpu.max": "800000 100000\n", f"{base}/cpu.stat": "usage_usec 5\nthrottled_usec 0\n",
        f"{base}/pod1/cpu.max": "150000 100000\n", f"{base}/pod1/cpu.stat": "usage_usec 5\nthrottled_usec 2500000\n",
        f"{base}/pod1/c/cpu.max": "max 100000\n", f"{base}/pod1/c/cpu.stat": "usage_usec 5\nthrottled_usec 7\n",
    })  # fmt: skip
    rank = parse_membership("0::/kubepods.slice/pod1/c\n")
    assert limits.memory(rank) == MemoryUse(base, 900 * MIB, 870 * MIB, oom_kills=2)
    assert limits.cpu(rank) == CpuUse(1.5, 2.5)


def test_version_2_without_limits(tmp_path: Path) -> None:
    """Without a limit the use is that of the rank's own cgroup, and no limit is made up."""
    limits = tree(tmp_path, {
        "mountinfo": V2,
        "/sys/fs/cgroup/user.slice/memory.max": "max\n",
        "/sys/fs/cgroup/user.slice/memory.current": f"{300 * MIB}\n",
        "/sys/fs/cgroup/user.slice/cpu.max": "max 100000\n",
        "/sys/fs/cgroup/user.slice/cpu.stat": "usage_usec 1\nthrottled_usec 0\n",
    })  # fmt: skip
    rank = parse_membership("0::/user.slice\n")
    assert limits.memory(rank) == MemoryUse("/sys/fs/cgroup/user.slice", None, 300 * MIB, None)
    assert limits.cpu(rank) == CpuUse(None, 0.0)


def test_version_1(tmp_path: Path) -> None:
    """The same from the files of version 1, whose largest number is no limit."""
    memory, cpu = "/sys/fs/cgroup/memory/docker/a", "/sys/fs/cgroup/cpu,cpuacct/docker/a"
    limits = tree(tmp_path, {
        "mountinfo": V1,
        f"{memory}/memory.limit_in_bytes": f"{64 * MIB}\n", f"{memory}/memory.usage_in_bytes": f"{60 * MIB}\n",
        f"{memory}/memory.stat": f"cache 1\ntotal_inactive_file {20 * MIB}\n",
        f"{memory}/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes": f"{9000 * MIB}\n",
        f"{cpu}/cpu.cfs_quota_us": "50000\n", f"{cpu}/cpu.cfs_period_us": "100000\n",
        f"{cpu}/cpu.stat": "nr_periods 9\nnr_throttled 4\nthrottled_time 3000000000\n",
        "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
        "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
    })  # fmt: skip
    rank = parse_membership("9:name=systemd:/x\n4:memory:/docker/a\n2:cpu,cpuacct:/docker/a\n0::/\n")
    assert limits.memory(rank) == MemoryUse(memory, 64 * MIB, 40 * MIB, oom_kills=3)
    assert limits.cpu(rank) == CpuUse(0.5, 3.0)


def test_nothing_to_read(tmp_path: Path) -> None:
    """Without readable files there is no use and no quota: neither zero nor unlimited."""
    limits = tree(tmp_path, {"mountinfo": V2})
    assert limits.memory(parse_membership("0::/a\n")) is None
    assert limits.cpu(parse_membership("0::/a\n")) is None
    assert limits.memory(parse_membership("")) is None


@pytest.mark.parametrize(
    ("root", "path", "expected"),
    [
        ("/", "/a/b", ["/cg/a/b", "/cg/a", "/cg"]),
        ("/", "/", ["/cg"]),
        ("/docker/1", "/docker/1", ["/cg"]),
        ("/docker/1", "/docker/1/x", ["/cg/x", "/cg"]),
        ("/docker/1", "/docker/12", []),
        ("/docker/1", "/", ["/cg"]),
        ("/", "/../other", []),
    ],
)
def test_where_a_cgroup_is(root: str, path: str, expected: list[str]) -> None:
    """A container sees its own part at the mount point; what lies outside of it is nowhere."""
    mounts = (CgroupMount("/cg", root, frozenset([""])),)
    assert folders(mounts, parse_membership(f"0::{path}"), "") == expected


@settings(max_examples=200)
@given(st.text(max_size=200), st.text(max_size=100))
def test_any_text(mountinfo: str, membership: str) -> None:
    """No text of these files makes the parsers fail, and no folder leaves the mount."""
    mounts = (*parse_mounts(mountinfo), CgroupMount("/cg", "/", frozenset([""])))
    for folder in folders(mounts[-1:], parse_membership(membership), ""):
        assert folder == "/cg" or (folder.startswith("/cg/") and "/../" not in folder + "/")
