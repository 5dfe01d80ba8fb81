"""The kernel log: lines as the kernel and drivers print them, the device as it behaves, and one real OOM kill."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aidiag.collectors.collector import Context
from aidiag.collectors.errors import NotPermittedError
from aidiag.collectors.kmsg import KmsgCollector
from aidiag.collectors.kmsg_device import KernelLog, parse_record
from aidiag.collectors.kmsg_kinds import EVENTS
from aidiag.collectors.kmsg_lines import KernelLines
from aidiag.collectors.observation import Event
from aidiag.collectors.pci import pci_address

XID = "NVRM: Xid (PCI:0000:c3:00): 79, pid=28411, name=python3, GPU has fallen off the bus."
FOLDERS = {
    "/proc/driver/nvidia/gpus": ["0000:1b:00.0", "0000:43:00.0", "0000:c3:00.0"],
    "/sys/bus/pci/devices/0000:1a:00.0/net": ["ens1f0"],
    "/sys/bus/pci/devices/0000:9c:00.0/infiniband": ["mlx5_3"],
}


@dataclass
class Message:
    """A recorded kernel message."""

    age_seconds: float
    text: str
    level: str = "err"


class FakeNode:
    """A node with some folders and recorded kernel messages."""

    def __init__(self, *, live: bool, messages: Sequence[Message] = ()) -> None:
        self.live, self.name, self.messages = live, "node-a", messages

    def entries(self, path: str) -> Sequence[str]:
        """The names in a folder."""
        if path not in FOLDERS:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return FOLDERS[path]

    def kernel_messages(self) -> Sequence[Message]:
        """The recorded log."""
        return self.messages

    def time(self) -> float:
        """When it was recorded."""
        return 5000.0


class FakeClock:
    """A clock that the test moves."""

    def __init__(self, monotonic: float = 1000.0) -> None:
        self.now = monotonic

    def monotonic(self) -> float:
        """Seconds as set."""
        return self.now

    def unix(self) -> float:
        """A million seconds later."""
        return self.now + 1e6


def record(text: str, sequence: int = 7, seconds: float = 900.0, priority: int = 3) -> bytes:
    """A line as /dev/kmsg gives it."""
    return f"{priority},{sequence},{int(seconds * 1e6)},-;{text}\n".encode()


def follow(path: Path, clock: FakeClock | None = None) -> KmsgCollector:
    """A collector that follows a file in place of the device."""
    context = Context(FakeNode(live=True), clock=clock or FakeClock())  # type: ignore[arg-type]
    return KmsgCollector(context, KernelLog(str(path)))


def events(collector: KmsgCollector) -> list[Event]:
    """One reading."""
    found = list(collector.collect())
    assert all(isinstance(fact, Event) for fact in found)
    return found  # type: ignore[return-value]


CASES: list[tuple[str, str, str, Mapping[str, object]]] = [
    (XID, "xid", "gpu2", {"xid": 79, "pid": 28411, "process": "python3", "pci_bus_id": "0000:c3:00.0"}),
    (
        "NVRM: Xid (PCI:0000:1b:00): 48, pid='<unknown>', name=<unknown>, An uncorrectable double bit error (DBE)",
        "xid", "gpu0", {"xid": 48, "pid": None, "process": None},
    ),
    ("NVRM: Xid (PCI:0000:43:00): 13, Graphics Exception: ESR 0x51e730=0x4000e", "xid", "gpu1", {"xid": 13, "pid": None}),
    ("NVRM: Xid (0000:43:00): 6", "xid", "gpu1", {"xid": 6, "detail": ""}),
    ("NVRM: Xid (PCI:0000:43:00 GPU-I:05): 45, pid=9, name=a b, Ch 00000010", "xid", "gpu1", {"xid": 45, "process": "a b"}),
    ("NVRM: Xid (PCI:0000:99:00): 31, pid=1, name=x, Ch 00000008", "xid", "0000:99:00.0", {"xid": 31}),
    (
        "NVRM: GPU 0000:c3:00.0: GPU has fallen off the bus.",
        "gpu_off_bus", "gpu2", {"detail": "GPU has fallen off the bus.", "pci_bus_id": "0000:c3:00.0"},
    ),
    (
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error",
        "sxid", "node-a", {"sxid": 12028, "switch": "nvidia-nvswitch3", "pci_bus_id": "0000:c1:00.0"},
    ),
    (
        ("Out of memory: Killed process 4711 (python3) total-vm:9000kB, anon-rss:8000kB, file-rss:20kB, shmem-rss:4kB, "
        "UID:0 pgtables:120kB oom_score_adj:0"),
        "host_oom_kill", "node-a", {"pid": 4711, "process": "python3", "resident_bytes": 8024 * 1024, "cgroup": None},
    ),
    (
        "Memory cgroup out of memory: Killed process 4711 (py) (th:on) total-vm:9kB, anon-rss:8kB, file-rss:0kB",
        "host_oom_kill", "node-a", {"pid": 4711, "process": "py) (th:on"},
    ),
    ("mlx5_core 0000:1a:00.0 ens1f0: Link down", "nic_link_down", "ens1f0", {}),
    ("mlx5_core 0000:1a:00.0 ens1f0: Link up", "nic_link_up", "ens1f0", {}),
    ("igb 0000:01:00.0 eno1: igb: eno1 NIC Link is Up 1000 Mbps Full Duplex, Flow Control: RX", "nic_link_up", "eno1", {}),
    ("i40e 0000:3b:00.0 eth0: NIC Link is Down", "nic_link_down", "eth0", {}),
    ("tg3 0000:02:00.0 eth2: Link is down", "nic_link_down", "eth2", {}),
    ("bond0: (slave ens1f0): link status definitely down, disabling slave", "nic_link_down", "ens1f0", {}),
    (
        "mlx5_core 0000:1a:00.0: Port module event[error]: module 0, Cable error, Bad or shorted cable/module",
        "nic_trouble", "ens1f0", {"problem": "port_module_error"},
    ),
    (
        "mlx5_core 0000:9c:00.0: poll_health:821:(pid 0): device's health compromised - reached miss count",
        "nic_trouble", "mlx5_3", {"problem": "health_compromised"},
    ),
    (
        ("mlx5_core 0000:0f:00.0: wait_func:1152:(pid 3967): MODIFY_NIC_VPORT_CONTEXT(0x755) timeout. Will cause a leak of"
        " a command resource"),
        "nic_trouble", "0000:0f:00.0", {"problem": "command_timeout"},
    ),
    (
        "NETDEV WATCHDOG: ens1f0 (mlx5_core): transmit queue 3 timed out 5016 ms",
        "nic_trouble", "ens1f0", {"problem": "transmit_timeout"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "name", "fields"), CASES, ids=[case[0][:60] for case in CASES])
def test_lines(tmp_path: Path, text: str, kind: str, name: str, fields: Mapping[str, object]) -> None:
    """A line becomes its event, about the right GPU, interface or host, with its fields and the line as evidence."""
    log = tmp_path / "kmsg"
    log.write_bytes(record("eth0: renamed from veth1") + record(text, 8))
    (event,) = events(follow(log))
    assert event.kind == kind and event.subject and event.subject.name == name
    assert {key: event.fields.get(key) for key in fields} == fields
    assert event.place and event.place.text == text
    declared = next(declared for declared in EVENTS if declared.name == kind)
    assert set(event.fields) <= set(declared.fields) and event.subject.kind == declared.scope


@pytest.mark.parametrize(
    "text",
    [
        "python3[77]: NVRM: Xid (PCI:0000:c3:00): 79, a program's name or text in a line is no Xid",
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15",
        "NVRM: GPU at PCI:0000:c3:00: GPU-5a1f0c00-7c1e-4d52-9b1a-c0ffee000000",
        "usb 1-1: link down the road",
        "mlx5_core 0000:1a:00.0: mlx5_cmd_out_err:838:(pid 9): ACCESS_REG(0x805) op_mod(0x1) failed, status bad",
        "mlx5_core 0000:1a:00.0: Port module event: module 0, Cable plugged",
        "oom_reaper: reaped process 4711 (python3), now anon-rss:0kB",
        "Tasks state (memory values in pages):",
    ],
)
def test_ordinary_lines(tmp_path: Path, text: str) -> None:
    """Lines that only look alike give nothing; the same file with one real Xid gives just that."""
    log = tmp_path / "kmsg"
    log.write_bytes(record(text))
    collector = follow(log)
    assert events(collector) == []
    with log.open("ab") as file:
        file.write(record(XID, 8))
    assert [event.kind for event in events(collector)] == ["xid"]


def test_programs_cannot_forge(tmp_path: Path) -> None:
    """What a program wrote to the log (facility user) is no evidence, the kernel's own line of the same text is."""
    log = tmp_path / "kmsg"
    log.write_bytes(record(XID, 1, priority=1 << 3 | 3) + record(XID, 2, priority=3))
    assert [event.order for event in events(follow(log))] == [2]


def test_cgroup_of_a_kill(tmp_path: Path) -> None:
    """The cgroup of a killed process comes from the line before, also where its name imitates that line."""
    log = tmp_path / "kmsg"
    told = (
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/kubepods/pod1,"
        "task_memcg=/kubepods/pod1/c,task=a,pid=1,uid=0,pid=4711,uid=0"
    )
    killed = "Memory cgroup out of memory: Killed process 4711 (a,pid=1,uid=0) total-vm:9kB, anon-rss:8kB"
    log.write_bytes(record(told, 1) + record("unrelated", 2) + record(killed, 3))
    (event,) = events(follow(log))
    assert event.fields["cgroup"] == "/kubepods/pod1/c" and event.fields["limit_of"] == "cgroup"
    assert event.fields["pid"] == 4711


def test_times(tmp_path: Path) -> None:
    """Old lines keep their time; new ones lie between two readings, whatever the kernel's clock says."""
    log, clock = tmp_path / "kmsg", FakeClock(1000.0)
    log.write_bytes(record(XID, 1, seconds=400.0))
    collector = follow(log, clock)
    (old,) = events(collector)
    assert old.time == 400.0
    for stamp, expected in ((995.0, 1000.0), (1001.5, 1001.5), (1300.0, 1002.0)):
        clock.now = 1000.0
        collector = follow(log, clock)
        events(collector)
        clock.now = 1002.0
        with log.open("ab") as file:
            file.write(record(XID, 2, seconds=stamp))
        assert events(collector)[0].time == expected
        log.write_bytes(record(XID, 1, seconds=400.0))


def test_fifo(tmp_path: Path) -> None:
    """Lines come as they are written, also in pieces and with properties after them; nothing to read is no error."""
    log = tmp_path / "kmsg"
    os.mkfifo(log)
    collector = follow(log)
    assert events(collector) == []
    writer = os.open(log, os.O_WRONLY)
    line = record(XID)
    os.write(writer, line[:30])
    assert events(collector) == []
    os.write(
        writer,
        line[30:] + b" SUBSYSTEM=pci\n DEVICE=+pci:0000:c3:00.0\n" + record("mlx5_core 0000:1a:00.0 ens1f0: Link down"),
    )
    assert [event.kind for event in events(collector)] == ["xid", "nic_link_down"]
    os.close(writer)
    assert events(collector) == []


def test_overrun(tmp_path: Path) -> None:
    """Where the kernel overwrote lines, their number is told and the rest is read on."""
    answers: list[bytes | OSError] = [
        record("first", 10), BlockingIOError(), OSError(errno.EPIPE, "Broken pipe"), record(XID, 42), BlockingIOError(),
    ]  # fmt: skip

    def read(descriptor: int, size: int) -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    path = tmp_path / "kmsg"
    path.touch()
    collector = KmsgCollector(Context(FakeNode(live=True)), KernelLog(str(path), read))  # type: ignore[arg-type]
    assert events(collector) == []
    lost, xid = events(collector)
    assert lost.kind == "kernel_lines_lost" and lost.fields == {"lines": 31}
    assert xid.fields["xid"] == 79


def test_first_line_is_not_lost(tmp_path: Path) -> None:
    """That the log no longer begins with line 0 is no loss of ours."""
    log = tmp_path / "kmsg"
    log.write_bytes(record(XID, 99_000))
    assert [event.kind for event in events(follow(log))] == ["xid"]


def test_long_log_in_parts(tmp_path: Path) -> None:
    """A long backlog is taken in parts, in order, without loss."""
    log = tmp_path / "kmsg"
    log.write_bytes(b"".join(record(XID, sequence) for sequence in range(500)))
    device = KernelLog(str(log))
    seen: list[int] = []
    while True:
        lines, lost = device.take(limit=100)
        if not lines:
            break
        assert lost == 0
        seen += [line.sequence for line in lines]
    assert seen == list(range(500))


def test_not_permitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No right to read the log, or none in this container, is told with a remedy."""
    with pytest.raises(NotPermittedError) as missing:
        events(follow(tmp_path / "none"))
    assert "give the container the device" in missing.value.remedy

    def refuse(*arguments: Any) -> int:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("aidiag.collectors.kmsg_device.os.open", refuse)
    with pytest.raises(NotPermittedError) as refused:
        events(follow(tmp_path / "kmsg"))
    assert refused.value.reason.endswith("Operation not permitted") and "CAP_SYSLOG" in refused.value.remedy


def test_recorded_node() -> None:
    """A recorded log is told once, each event at its age."""
    node = FakeNode(live=False, messages=[Message(841.0, XID), Message(12.0, "systemd[1]: Startup finished")])
    collector = KmsgCollector(Context(node, clock=FakeClock(2000.0)))  # type: ignore[arg-type]
    (event,) = events(collector)
    assert (event.time, event.unix) == (2000.0 - 841.0, 5000.0 - 841.0)
    assert event.subject and event.subject.name == "gpu2" and event.subject.host == "node-a"
    assert events(collector) == []


def test_recorded_node_without_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that is not in the recording is unknown, not empty."""

    def missing(node: FakeNode) -> Sequence[Message]:
        raise OSError(errno.ENODATA, "not in the recording")

    monkeypatch.setattr(FakeNode, "kernel_messages", missing)
    collector = KmsgCollector(Context(FakeNode(live=False)))  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(NotPermittedError, match="not in the recording"):
            events(collector)


@pytest.mark.parametrize("text", ["PCI:0000:c3:00", "00000000:C3:00.0", "0000:c3:00.0", "0000:c3:00"])
def test_pci_addresses(text: str) -> None:
    """All ways to write a PCI address give the one of sysfs."""
    assert pci_address(text) == "0000:c3:00.0"


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_any_record(data: bytes) -> None:
    """Any bytes are a record or none, never an error."""
    line = parse_record(data)
    assert line is None or line.sequence >= 0


WORDS = ["NVRM: Xid (PCI:0000:c3:00): ", "79", ", pid=", "Killed process ", "oom-kill:", "mlx5_core 0000:1a:00.0 ", "Link ",
         "down", "(", ")", ",", ":", "task_memcg=/a,task=", "SXid", "off the bus", "NETDEV WATCHDOG: ", "\n", "x" * 300]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=5)), max_size=40).map("".join))
def test_any_text(text: str) -> None:
    """Any text, made of the words that the patterns know, is a declared event or none; no field is longer than 512."""
    fact = KernelLines().fact(text)
    if fact:
        declared = {kind.name: set(kind.fields) for kind in EVENTS}
        assert set(fact.fields) <= declared[fact.kind]
        assert all(len(str(value)) <= 512 for value in fact.fields.values())
