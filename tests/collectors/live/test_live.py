"""The live node: it says of this machine what the machine says itself."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from aidiag.collectors.answers import KERNEL_LEVELS
from aidiag.collectors.live import LiveNode
from aidiag.collectors.node import Node, printable


@pytest.fixture
def node() -> Iterator[Node]:
    """This machine."""
    node = LiveNode()
    yield node
    node.close()


def test_files(node: Node) -> None:
    """Files, folders and links are those of this machine."""
    assert Path("/proc/sys/kernel/random/boot_id").read_text().strip() == node.text("/proc/sys/kernel/random/boot_id")
    assert sorted(psutil.net_if_stats()) == [n for n in node.entries("/sys/class/net") if n != "bonding_masters"]
    assert node.link("/sys/class/net/lo").endswith("/virtual/net/lo")
    assert node.exists("/proc/self")
    assert not node.exists("/proc/nothing")
    with pytest.raises(FileNotFoundError):
        node.text("/proc/nothing")


def test_read_is_bounded(node: Node) -> None:
    """An endless file gives only what was asked for."""
    assert bytes(1000) == node.read("/dev/zero", 1000)


def test_read_all_keeps_the_good_ones(node: Node) -> None:
    """One file that is missing does not take its neighbours with it."""
    found = node.read_all(["/proc/self/comm", "/proc/nothing"])

    assert isinstance(found["/proc/nothing"], FileNotFoundError)
    assert isinstance(found["/proc/self/comm"], bytes)


def test_answers_agree_with_psutil(node: Node) -> None:
    """CPUs, limits and sizes are what psutil measures."""
    assert psutil.cpu_count() == node.sysconf("SC_NPROCESSORS_ONLN")
    assert set(psutil.Process().cpu_affinity() or []) == node.affinity()
    soft, hard = psutil.Process().rlimit(psutil.RLIMIT_NOFILE)
    assert (soft, hard) == (node.limits()["RLIMIT_NOFILE"].soft, node.limits()["RLIMIT_NOFILE"].hard)
    assert psutil.disk_usage("/").total == node.statvfs("/").size_bytes
    assert (os.uname().release, os.geteuid()) == (node.kernel().release, node.euid())
    assert os.uname().nodename == node.name


def test_device_access(node: Node) -> None:
    """What may be done with a device node is told, a missing one is an error."""
    assert "rw" == node.device_access("/dev/null")
    with pytest.raises(FileNotFoundError):
        node.device_access("/dev/nothing")


def test_clock_state(node: Node) -> None:
    """adjtimex answers a state that exists."""
    state = node.clock_state()

    assert state.state in range(6)
    assert state.synchronised == (state.state != 5 and not state.status & 0x40)


def test_names_are_resolved_in_a_helper(node: Node) -> None:
    """A name in /etc/hosts has its addresses, a name that cannot exist is a resolver error."""
    assert set(node.resolve("localhost")) <= {"127.0.0.1", "::1"}
    with pytest.raises(socket.gaierror):
        node.resolve("no..such..name")


def test_other_roots(tmp_path: Path) -> None:
    """In a container, the host's /proc and /sys may be somewhere else."""
    (tmp_path / "sys/class").mkdir(parents=True)
    (tmp_path / "sys/class/file").write_text("host")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text("cpu 1\n")
    node = LiveNode(sys=str(tmp_path / "sys"), proc=str(tmp_path / "proc"), name="host-7")

    assert ("host", "cpu 1", "host-7") == (node.text("/sys/class/file"), node.text("/proc/stat"), node.name)
    assert node.exists("/etc/passwd")
    assert LiveNode(str(tmp_path)).text("/sys/class/file") == "host"


def test_what_is_not_read_yet_is_unknown(node: Node) -> None:
    """A source that has no live reader yet is unknown, neither absent nor empty."""
    for source in (node.services, node.packages, node.interpreter, node.container, node.nvml):
        with pytest.raises(OSError) as caught:
            source()
        assert errno.ENOSYS == caught.value.errno


def helpers() -> set[int]:
    """The process ids of the helpers that read foreign files for this process."""
    children = psutil.Process().children()
    return {child.pid for child in children if "foreign_calls.py" in " ".join(child.cmdline())}


def test_rdma_files_are_read_in_a_helper(tmp_path: Path) -> None:
    """Files of RDMA devices are read by a helper process, and errors come back as themselves."""
    device = tmp_path / "class/infiniband/mlx5_0"
    device.mkdir(parents=True)
    (device / "fw_ver").write_bytes(b"28.43\xff\n")
    node, before = LiveNode(sys=str(tmp_path)), helpers()
    try:
        assert "28.43\\xff" == node.text("/sys/class/infiniband/mlx5_0/fw_ver")
        assert ["fw_ver"] == node.entries("/sys/class/infiniband/mlx5_0")
        assert node.exists("/sys/class/infiniband/mlx5_0/fw_ver")
        found = node.read_all([f"/sys/class/infiniband/mlx5_0/{name}" for name in ("fw_ver", "none")])
        assert [bytes, FileNotFoundError] == [type(value) for value in found.values()]
        with pytest.raises(FileNotFoundError):
            node.link("/sys/class/infiniband/mlx5_0/device")
        assert 1 == len(helpers() - before)
    finally:
        node.close()


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="/dev/kmsg may not be read here")
def test_kernel_log(node: Node) -> None:
    """The kernel log of this machine comes oldest first, with the words of its levels."""
    messages = node.kernel_messages()

    assert [message.age_seconds for message in messages] == sorted((m.age_seconds for m in messages), reverse=True)
    assert {message.level for message in messages} <= set(KERNEL_LEVELS)


def test_printable_names() -> None:
    """Names with odd bytes and control characters are shown, not obeyed."""
    assert "eth\\xff\\x1b[2J" == printable("eth\udcff\x1b[2J")
    assert "über0" == printable("über0")
