"""Recorded nodes: every source of the format answers, and a missing or broken one says so."""

from __future__ import annotations

import errno
import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aidiag.collectors.answers import CommandResult, Kernel, Limit, Route, Service, SharedMemoryFile, VerbsPort
from aidiag.collectors.errors import CollectorError, HungError
from aidiag.collectors.node import Node
from aidiag.collectors.recorded import RecordedNode

ChangeNode = Callable[..., RecordedNode]


def test_files_are_read_as_on_the_host(gpu_node: Node) -> None:
    """Files are found through the links of sysfs, their text comes without its line end."""
    assert "4: ACTIVE" == gpu_node.text("/sys/class/infiniband/mlx5_0/ports/1/state")
    assert b"4: A" == gpu_node.read("/sys/class/infiniband/mlx5_0/ports/1/state", 4)
    assert ["docker0", "eth0", "ib0", "lo"] == gpu_node.entries("/sys/class/net")
    assert gpu_node.link("/sys/class/net/eth0/device/driver").endswith("/drivers/mlx5_core")
    assert gpu_node.exists("/sys/class/net/eth0/device/driver/bind")
    assert not gpu_node.exists("/sys/class/net/eth9")
    with pytest.raises(FileNotFoundError):
        gpu_node.text("/sys/class/net/docker0/speed")
    with pytest.raises(IsADirectoryError):
        gpu_node.text("/sys/class/net/eth0")


def test_read_all_keeps_the_good_ones(gpu_node: Node) -> None:
    """One file that is missing does not take its neighbours with it."""
    found = gpu_node.read_all(["/proc/stat", "/proc/nothing"])

    assert isinstance(found["/proc/nothing"], FileNotFoundError)
    assert b"cpu  1000" == bytes(found["/proc/stat"])[:9]  # type: ignore[arg-type]


def test_every_key_answers(gpu_node: Node) -> None:
    """What no file holds comes from node.json, in the units of the answers."""
    assert "gpu-1" == gpu_node.name
    assert Kernel("Linux", "5.15.0-1053-nvidia", "x86_64") == gpu_node.kernel()
    assert 1772200000 == gpu_node.time()
    assert 0 == gpu_node.euid()
    assert Limit(1048576, 1048576) == gpu_node.limits()["RLIMIT_NOFILE"]
    assert Limit(None, None) == gpu_node.limits()["RLIMIT_MEMLOCK"]
    assert 96 == gpu_node.sysconf("SC_NPROCESSORS_ONLN")
    assert 48 == len(gpu_node.affinity())
    assert gpu_node.clock_state().synchronised
    assert pytest.approx(12e-6) == gpu_node.clock_state().offset_seconds
    assert (32 << 30, 24 << 30) == (
        gpu_node.statvfs("/dev/shm").size_bytes,
        gpu_node.statvfs("/dev/shm").available_bytes,
    )
    assert ["10.20.0.18"] == gpu_node.resolve("gpu-2")
    assert ["10.60.0.17/16"] == gpu_node.addresses()["ib0"]
    assert [Route("0.0.0.0/0", "10.20.0.1", "eth0")] == gpu_node.routes()
    assert ["sshd"] == [socket.command for socket in gpu_node.sockets()]
    assert "48211" == gpu_node.environ()["SLURM_JOB_ID"]
    assert Service("loaded", "active", "running", "success", 0, 1727900) == gpu_node.services()["slurmd.service"]
    assert ["info", "err"] == [message.level for message in gpu_node.kernel_messages()]
    assert ("rw", "") == (gpu_node.device_access("/dev/infiniband/uverbs0"), gpu_node.device_access("/dev/nvidia0"))
    assert [SharedMemoryFile("nccl-abc", 4096, 1000, 30, ())] == gpu_node.shared_memory()
    assert {"rdma-core": "24.10"} == gpu_node.packages()
    assert VerbsPort(4, 1024, 4096, 0) == gpu_node.rdma_port("mlx5_1", 1)
    assert {"rx_prio3_pause": 12} == gpu_node.ethtool_statistics("eth0")
    assert {"trust": "dscp"} == gpu_node.dcb("eth0")
    assert {"python": "3.11.9"} == gpu_node.interpreter()
    assert gpu_node.container() is None
    assert gpu_node.kubernetes() is None
    assert CommandResult(0, 0.03, "NodeName=gpu-1") == gpu_node.command("scontrol show node gpu-1")
    assert "NVIDIA H100 80GB HBM3" == gpu_node.nvml()["gpus"][0]["nvmlDeviceGetName"]


def test_recorded_errors_are_raised(gpu_node: Node, pod_node: Node) -> None:
    """An error of the recording is the exception that the call itself would have raised."""
    with pytest.raises(PermissionError, match="ibv_query_port"):
        gpu_node.rdma_port("mlx5_0_vf0", 1)
    with pytest.raises(socket.gaierror) as caught:
        gpu_node.resolve("nobody")
    assert socket.EAI_NONAME == caught.value.errno
    with pytest.raises(OSError, match="statvfs") as error:
        pod_node.statvfs("/data")
    assert errno.EIO == error.value.errno


def test_recorded_hang_is_hung(gpu_node: Node) -> None:
    """A call that does not return in the recording is hung, and named."""
    with pytest.raises(HungError, match=r"statvfs\(/lustre\) has not returned"):
        gpu_node.statvfs("/lustre")
    with pytest.raises(HungError, match=r"getaddrinfo\(slow-dns\)"):
        gpu_node.resolve("slow-dns")


def test_slow_answer_moves_the_clock(gpu_node: Node) -> None:
    """A slow answer is given, and the node's clock shows the time that it took."""
    start = gpu_node.elapsed()

    assert gpu_node.statvfs("/home").size_bytes > 0
    assert 1.5 == gpu_node.elapsed() - start


SOURCES: list[Callable[[Node], object]] = [
    lambda node: node.kernel(),
    lambda node: node.time(),
    lambda node: node.clock_state(),
    lambda node: node.euid(),
    lambda node: node.environ(),
    lambda node: node.limits(),
    lambda node: node.sysconf("SC_PAGESIZE"),
    lambda node: node.affinity(),
    lambda node: node.statvfs("/"),
    lambda node: node.device_access("/dev/nvidia0"),
    lambda node: node.shared_memory(),
    lambda node: node.addresses(),
    lambda node: node.routes(),
    lambda node: node.sockets(),
    lambda node: node.resolve("localhost"),
    lambda node: node.rdma_port("mlx5_0", 1),
    lambda node: node.ethtool_statistics("eth0"),
    lambda node: node.dcb("eth0"),
    lambda node: node.services(),
    lambda node: node.kernel_messages(),
    lambda node: node.packages(),
    lambda node: node.interpreter(),
    lambda node: node.container(),
    lambda node: node.kubernetes(),
    lambda node: node.command("uptime"),
    lambda node: node.nvml(),
]
KEYS = (
    "addresses", "adjtimex", "commands", "container", "dcb", "dev", "environ", "ethtool_statistics", "euid", "getaddrinfo",
    "hostname", "ibv_query_port", "interpreter", "kmsg", "kubernetes", "limits", "packages", "routes",
    "sched_getaffinity", "services", "shm", "sockets", "statvfs", "sysconf", "time", "uname",
)  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
def test_missing_key_is_not_readable(source: Callable[[Node], object], tmp_path: Path) -> None:
    """A source that was not recorded raises OSError; it never gives an empty or a zero answer."""
    (tmp_path / "node.json").write_text("{}")
    node = RecordedNode(tmp_path)

    with pytest.raises(OSError):
        source(node)


@settings(max_examples=30, deadline=None)
@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=6,
    )
)
def test_wrong_shapes_never_crash(value: object, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever stands at a key, a source answers or raises OSError or CollectorError."""
    tree = tmp_path_factory.mktemp("node")
    (tree / "proc").mkdir()
    (tree / "node.json").write_text(json.dumps(dict.fromkeys(KEYS, value)))
    node = RecordedNode(tree)

    for source in SOURCES:
        try:
            source(node)
        except (OSError, CollectorError):
            continue


def test_earlier_reading(gpu_node: Node, change_node: ChangeNode) -> None:
    """`before/` is an earlier node with its age; without it, counters were never measured before."""
    path = "/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed"
    earlier = gpu_node.before()

    assert earlier is not None
    assert (600, "0", "1") == (earlier.age_seconds, earlier.node.text(path), gpu_node.text(path))
    assert "gpu-1" == earlier.node.name
    with pytest.raises(FileNotFoundError):
        earlier.node.text("/sys/class/infiniband/mlx5_0/ports/1/state")
    assert change_node("gpu-node", files={"before": None}).before() is None


def test_what_is_no_node_is_refused(tmp_path: Path) -> None:
    """A missing folder, an empty one and a broken node.json are told in a sentence."""
    with pytest.raises(CollectorError, match="is not a folder"):
        RecordedNode(tmp_path / "missing")
    with pytest.raises(CollectorError, match="holds no recorded node"):
        RecordedNode(tmp_path)
    (tmp_path / "node.json").write_text("{")
    with pytest.raises(CollectorError, match=r"node\.json of the recording is no JSON"):
        RecordedNode(tmp_path)
    (tmp_path / "node.json").write_text("[" * 100_000)
    with pytest.raises(CollectorError, match=r"node\.json of the recording is no JSON"):
        RecordedNode(tmp_path)
    (tmp_path / "node.json").write_text("[]")
    with pytest.raises(CollectorError, match="no JSON object"):
        RecordedNode(tmp_path)


def test_name_falls_back_to_the_folder(change_node: ChangeNode) -> None:
    """A recording without a host name is called as its folder."""
    assert "gpu-node" == change_node("gpu-node", node={"hostname": None}).name
