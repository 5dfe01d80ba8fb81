"""CPU, memory, /dev/shm, file systems and limits of the host."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aidiag.collectors.host import HostCollector
from aidiag.collectors.host.file_systems import worth_telling
from aidiag.collectors.host.proc_files import parse_cpu_seconds, parse_meminfo, parse_stall_seconds, parse_vmstat
from aidiag.collectors.live import LiveNode
from aidiag.collectors.mounts import parse_mounts
from aidiag.collectors.node import Node
from aidiag.collectors.observation import Absent, Sample

Seen = Mapping[tuple[str, ...], Sample | Absent]
See = Callable[[type[HostCollector], Node], Seen]
ChangeNode = Callable[..., Node]
GIB = 1 << 30


def values(seen: Seen, *signals: str) -> dict[str, float | str]:
    """The values of signals without labels."""
    found = {}
    for signal in signals:
        (sample,) = [one for key, one in seen.items() if key[0] == signal]
        assert isinstance(sample, Sample), sample
        found[signal] = sample.value
    return found


def absent(seen: Seen, *key: str) -> Absent:
    """The reason why something is absent."""
    one = seen[key]
    assert isinstance(one, Absent), one
    return one


def mounts_told(seen: Seen) -> list[str]:
    """The mounts that are told of."""
    return [key[2] for key in seen if key[0] == "host_filesystem_call_pending_seconds"]


def test_slurm_node(gpu_node: Node, see: See) -> None:
    """Memory and CPUs are those of the job's cgroup (version 1), everything else is the host's."""
    seen = see(HostCollector, gpu_node)

    assert {
        "host_cpus": 96,
        "host_cpus_allowed": 16,  # quota of the job, tighter than the affinity of 48
        "host_memory_total_bytes": 32 * GIB,  # limit of the step
        "host_memory_available_bytes": 32 * GIB - 14_000_000_000,  # without page cache that can be dropped
        "host_swap_used_bytes": GIB,
        "host_oom_kills_total": 2,
        "host_shm_size_bytes": 32 * GIB,
        "host_shm_available_bytes": 24 * GIB,
        "host_limit_open_files": 1048576,
        "host_limit_memlock_bytes": math.inf,
    } == values(
        seen,
        "host_cpus",
        "host_cpus_allowed",
        "host_memory_total_bytes",
        "host_memory_available_bytes",
        "host_swap_used_bytes",
        "host_oom_kills_total",
        "host_shm_size_bytes",
        "host_shm_available_bytes",
        "host_limit_open_files",
        "host_limit_memlock_bytes",
    )
    times = {key[2]: one.value for key, one in seen.items() if isinstance(one, Sample) and "cpu_seconds" in key[0]}
    assert (10.0, 0.4, 0.05) == (times["user"], times["iowait"], times["steal"])
    assert isinstance(seen["host_info", "gpu-1", "5.15.0-1053-nvidia", "x86_64"], Sample)
    assert 0.081234 == getattr(seen["host_stall_seconds_total", "gpu-1", "memory"], "value", None)


def test_pod(pod_node: Node, see: See) -> None:
    """Memory and CPUs are those of the container (version 2)."""
    assert {
        "host_cpus_allowed": 16,
        "host_memory_total_bytes": 64 * GIB,
        "host_memory_available_bytes": 64 * GIB - 30_000_000_000,
        "host_shm_size_bytes": GIB // 16,
        "host_limit_memlock_bytes": 65536,
    } == values(
        see(HostCollector, pod_node),
        "host_cpus_allowed",
        "host_memory_total_bytes",
        "host_memory_available_bytes",
        "host_shm_size_bytes",
        "host_limit_memlock_bytes",
    )


def test_host_without_limits(change_node: ChangeNode, see: See) -> None:
    """Where no cgroup has a limit, the host's own memory and the affinity count."""
    node = change_node("pod", files={"sys/fs/cgroup/memory.max": "max\n", "sys/fs/cgroup/cpu.max": "max 100000\n"})

    assert {
        "host_cpus_allowed": 192,
        "host_memory_total_bytes": 2147483648 << 10,
        "host_memory_available_bytes": 2000000000 << 10,
    } == values(see(HostCollector, node), "host_cpus_allowed", "host_memory_total_bytes", "host_memory_available_bytes")


def test_mounts_of_a_job(gpu_node: Node, pod_node: Node, see: See) -> None:
    """Root, home and data are told of once each; pseudo file systems, images and second views of a disk are not."""
    assert ["/", "/home", "/lustre", "/scratch local"] == mounts_told(see(HostCollector, gpu_node))
    assert ["/", "/data"] == mounts_told(see(HostCollector, pod_node))


def test_hung_mount(gpu_node: Node, see: See) -> None:
    """A mount that does not answer is absent, with the call, and its wait is measured; the others have their sizes."""
    seen = see(HostCollector, gpu_node)
    pending = {
        key[2]: one.value
        for key, one in seen.items()
        if key[0] == "host_filesystem_call_pending_seconds" and isinstance(one, Sample)
    }

    assert {"/": 0.0, "/home": 0.0, "/lustre": 2.0, "/scratch local": 0.0} == pending
    reason = absent(seen, "host_filesystem_available_bytes", "gpu-1", "/lustre").reason
    assert "statvfs(/lustre) has not returned for 2.0 s" == reason
    assert isinstance(seen["host_filesystem_available_bytes", "gpu-1", "/home"], Sample)


def test_broken_mount(pod_node: Node, see: See) -> None:
    """A mount that gives an error is absent with it; it is not called hung."""
    seen = see(HostCollector, pod_node)

    assert (
        "statvfs(/data): Input/output error"
        == absent(seen, "host_filesystem_size_bytes", "llm-worker-0", "/data").reason
    )
    assert 0.0 == getattr(seen["host_filesystem_call_pending_seconds", "llm-worker-0", "/data"], "value", None)


@pytest.mark.parametrize(
    ("files", "node", "signal", "reason"),
    [
        ({"proc/meminfo": None}, {}, "host_memory_total_bytes", "No such file"),
        ({"proc/meminfo": "MemTotal: 5 kB\n"}, {}, "host_memory_available_bytes", "no MemAvailable"),
        ({"proc/stat": "intr 5\n"}, {}, "host_cpu_seconds_total", "does not start with"),
        ({}, {"limits": {}}, "host_limit_memlock_bytes", "getrlimit(RLIMIT_MEMLOCK) is not known"),
        ({}, {"limits": None}, "host_limit_open_files", "not in the recording"),
        ({}, {"statvfs": {"/dev/shm": {"hang": True}}}, "host_shm_size_bytes", "statvfs(/dev/shm) has not returned"),
        ({}, {"sysconf": {}}, "host_cpus", "not in the recording"),
        ({}, {"uname": {"error": "EPERM"}}, "host_info", "Operation not permitted"),
        ({"proc/self/mountinfo": None}, {}, "host_filesystem_size_bytes", "mountinfo cannot be read"),
    ],
)
def test_unreadable_source(
    files: dict[str, str | None],
    node: dict[str, object],
    signal: str,
    reason: str,
    change_node: ChangeNode,
    pod_node: Node,
    see: See,
) -> None:
    """What cannot be read is absent with its reason, and most of the rest is still there."""
    whole = sum(isinstance(one, Sample) for one in see(HostCollector, pod_node).values())
    seen = see(HostCollector, change_node("pod", files=files, node=node))

    assert reason in absent(seen, signal, "llm-worker-0").reason
    assert sum(isinstance(one, Sample) for one in seen.values()) >= whole / 2


def test_no_swap_and_no_pressure_are_no_fault(change_node: ChangeNode, see: See) -> None:
    """Kernels without pressure accounting or without the OOM counter just do not have these."""
    seen = see(HostCollector, change_node("gpu-node", files={"proc/pressure": None, "proc/vmstat": None}))

    assert not {"host_stall_seconds_total", "host_oom_kills_total"} & {key[0] for key in seen}


def test_this_machine(see: See) -> None:
    """The live host is what psutil says that it is."""
    node = LiveNode()
    seen = see(HostCollector, node)
    node.close()

    assert psutil.cpu_count() == values(seen, "host_cpus")["host_cpus"]
    assert psutil.disk_usage("/dev/shm").total == values(seen, "host_shm_size_bytes")["host_shm_size_bytes"]
    total = values(seen, "host_memory_total_bytes")["host_memory_total_bytes"]
    assert isinstance(total, float)
    assert 0 < total <= psutil.virtual_memory().total
    root = seen["host_filesystem_size_bytes", node.name, "/"]
    assert psutil.disk_usage("/").total == getattr(root, "value", None)
    idle = seen["host_cpu_seconds_total", node.name, "idle"]
    assert pytest.approx(psutil.cpu_times().idle, rel=0.01) == getattr(idle, "value", None)


def test_which_mounts_are_worth_telling() -> None:
    """A container's files of the host, a mount that another hides and an unused tmpfs are left out."""
    table = """40 1 0:60 / / rw - overlay overlay rw
45 40 259:5 /pods/hosts /etc/hosts rw - xfs /dev/a rw
46 40 259:6 /nvidia-smi /usr/bin/nvidia-smi ro - ext4 /dev/b rw
47 40 0:70 / /cache rw - tmpfs tmpfs rw
48 40 259:7 / /data rw - xfs /dev/c rw
49 40 0:71 / /data rw - nfs4 filer:/data rw
50 40 0:72 / /code rw - tmpfs tmpfs rw
51 40 0:73 / /lower rw - fuse.lxcfs lxcfs rw
52 40 0:74 / /mnt/ceph rw - ceph mon:/ rw"""

    assert ["/", "/code", "/data", "/mnt/ceph"] == [
        mount.point for mount in worth_telling(parse_mounts(table), ["/", "/code/job"])
    ]


@given(st.text(max_size=120) | st.text(alphabet="cpu 0123456789kB:\nsome total=", max_size=120))
def test_garbage_in_proc(text: str) -> None:
    """No text makes a parser fail with anything but ValueError."""
    parse_meminfo(text)
    parse_vmstat(text)
    for parse in (parse_cpu_seconds, parse_stall_seconds):
        try:
            parse(text)
        except ValueError:
            continue
