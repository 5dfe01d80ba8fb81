"""RDMA ports: state, rate, MTU, counters, and whether the job uses them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aidiag.collectors.collector import Context
from aidiag.collectors.errors import CollectorError, HungError, UnavailableError
from aidiag.collectors.node import Node
from aidiag.collectors.observation import Absent, Sample
from aidiag.collectors.rdma import RdmaCollector
from aidiag.collectors.rdma.collector import SIGNALS
from aidiag.collectors.rdma.ports import STATES, parse_lid, parse_rate, parse_state

Seen = Mapping[tuple[str, ...], Sample | Absent]
See = Callable[[type[RdmaCollector], Node], Seen]
ChangeNode = Callable[..., Node]
DEVICE = "sys/devices/pci0000:15/0000:15:01.0/0000:18:00.0/infiniband/mlx5_0"
PORT = f"{DEVICE}/ports/1"


def value(seen: Seen, *key: str) -> float | str:
    """The value of a sample."""
    one = seen[key]
    assert isinstance(one, Sample), one
    return one.value


def used(seen: Seen) -> dict[str, float | str | None]:
    """Port to whether the job uses it, None where that is absent."""
    return {
        key[1]: one.value if isinstance(one, Sample) else None
        for key, one in seen.items()
        if key[0] == "rdma_port_used_by_job"
    }


def test_infiniband_port(gpu_node: Node, see: See) -> None:
    """State, rate, identifiers, MTU and interface of an InfiniBand port."""
    seen = see(RdmaCollector, gpu_node)

    assert {
        "rdma_port_up": 1.0,
        "rdma_port_state": "ACTIVE",
        "rdma_port_phys_state": "LinkUp",
        "rdma_port_speed_bytes_per_second": 50e9,
        "rdma_port_lanes": 4.0,
        "rdma_port_lid": 0x21,
        "rdma_port_sm_lid": 1.0,
        "rdma_port_mtu_bytes": 4096.0,
        "rdma_port_max_mtu_bytes": 4096.0,
        "rdma_port_used_by_job": 1.0,
        "rdma_call_pending_seconds": 0.0,
    } == {
        signal: value(seen, signal, "mlx5_0:1")
        for signal in (
            "rdma_port_up",
            "rdma_port_state",
            "rdma_port_phys_state",
            "rdma_port_speed_bytes_per_second",
            "rdma_port_lanes",
            "rdma_port_lid",
            "rdma_port_sm_lid",
            "rdma_port_mtu_bytes",
            "rdma_port_max_mtu_bytes",
            "rdma_port_used_by_job",
            "rdma_call_pending_seconds",
        )
    }
    assert 1.0 == value(seen, "rdma_port_info", "mlx5_0:1", "ib0", "InfiniBand", "MT_0000000838", "28.43.2026")
    assert 1.0 == value(seen, "rdma_port_gids", "mlx5_0:1", "IB/RoCE v1")


def test_roce_port(gpu_node: Node, see: See) -> None:
    """A RoCE port has the interface of its GIDs, v2 entries, and no InfiniBand identifiers."""
    seen = see(RdmaCollector, gpu_node)

    assert 1.0 == value(seen, "rdma_port_info", "mlx5_1:1", "eth0", "Ethernet", "MT_0000000838", "28.43.2026")
    assert (2.0, 1024.0) == (
        value(seen, "rdma_port_gids", "mlx5_1:1", "RoCE v2"),
        value(seen, "rdma_port_mtu_bytes", "mlx5_1:1"),
    )
    assert ("rdma_port_lid", "mlx5_1:1") not in seen
    assert 40.0 == value(seen, "rdma_port_congestion_notifications_sent_total", "mlx5_1:1")


def test_counters(gpu_node: Node, see: See) -> None:
    """Data counters are words of 4 bytes; what a driver does not count is not there at all."""
    seen = see(RdmaCollector, gpu_node)

    assert (1e9, 2e9) == (
        value(seen, "rdma_port_transmit_bytes_total", "mlx5_0:1"),
        value(seen, "rdma_port_receive_bytes_total", "mlx5_0:1"),
    )
    assert 1.0 == value(seen, "rdma_port_link_downed_total", "mlx5_0:1")
    assert 2.0 == value(seen, "rdma_port_local_ack_timeouts_total", "mlx5_0:1")
    assert ("rdma_port_congestion_notifications_sent_total", "mlx5_0:1") not in seen


def test_widths() -> None:
    """Counters that stop at their end say where: 4, 8, 16 or 32 bits; 64-bit ones do not."""
    widths = {signal.name: signal.width_bits for signal in RdmaCollector.signals}

    assert (4, 8, 16, 32, None) == (
        widths["rdma_port_excessive_buffer_overruns_total"],
        widths["rdma_port_link_downed_total"],
        widths["rdma_port_symbol_errors_total"],
        widths["rdma_port_transmit_wait_ticks_total"],
        widths["rdma_port_transmit_bytes_total"],
    )


def test_counter_at_its_end_keeps_its_value(change_node: ChangeNode, see: See) -> None:
    """A pinned counter is given as it stands, so that a rule can see that it is pinned."""
    files = {f"{PORT}/counters/symbol_error": "65535\n", f"{PORT}/counters/port_xmit_wait": "4294967295\n"}
    seen = see(RdmaCollector, change_node("gpu-node", files=files))

    assert (65535.0, 4294967295.0) == (
        value(seen, "rdma_port_symbol_errors_total", "mlx5_0:1"),
        value(seen, "rdma_port_transmit_wait_ticks_total", "mlx5_0:1"),
    )


def test_virtual_function(gpu_node: Node, see: See) -> None:
    """A virtual function has no counters and no MTU, and nobody should miss them."""
    seen = see(RdmaCollector, gpu_node)
    absents = [one for key, one in seen.items() if key[1] == "mlx5_0_vf0:1" and isinstance(one, Absent)]

    assert ("DOWN", "Disabled", 0.0) == (
        value(seen, "rdma_port_state", "mlx5_0_vf0:1"),
        value(seen, "rdma_port_phys_state", "mlx5_0_vf0:1"),
        value(seen, "rdma_port_up", "mlx5_0_vf0:1"),
    )
    assert {False} == {one.expected for one in absents}
    assert "rdma_port_symbol_errors_total" in {one.signal for one in absents}


@pytest.mark.parametrize("text", ["N/A (no PMA)\n", "", "18446744073709551615\n"])
def test_bad_counter_keeps_its_neighbours(text: str, change_node: ChangeNode, see: See) -> None:
    """One file without a number is absent with its reason; port and other counters stay."""
    seen = see(RdmaCollector, change_node("gpu-node", files={f"{PORT}/counters/symbol_error": text}))
    absent = seen["rdma_port_symbol_errors_total", "mlx5_0:1"]

    assert isinstance(absent, Absent)
    assert "ports/1/counters/symbol_error: it reads" in absent.reason
    assert absent.expected
    assert 1.0 == value(seen, "rdma_port_link_downed_total", "mlx5_0:1")
    assert "ACTIVE" == value(seen, "rdma_port_state", "mlx5_0:1")


def test_physical_port_without_counters(change_node: ChangeNode, see: See) -> None:
    """On a real port, missing counters are missed."""
    seen = see(RdmaCollector, change_node("gpu-node", files={f"{PORT}/counters": None}))
    absent = seen["rdma_port_symbol_errors_total", "mlx5_0:1"]

    assert isinstance(absent, Absent)
    assert absent.expected


@pytest.mark.parametrize(
    ("files", "state", "phys_state", "up"),
    [
        ({"state": "2: INIT\n"}, "INIT", "LinkUp", 0.0),
        ({"state": "1: DOWN\n", "phys_state": "2: Polling\n"}, "DOWN", "Polling", 0.0),
        ({"state": "4: ACTIVE\n", "phys_state": "6: LinkErrorRecovery\n"}, "ACTIVE", "LinkErrorRecovery", 0.0),
        ({"state": "garbage\n"}, None, "LinkUp", None),
        ({"state": None}, None, "LinkUp", None),
        ({"phys_state": "99: What\n"}, "ACTIVE", None, None),
    ],
)
def test_states(
    files: dict[str, str | None],
    state: str | None,
    phys_state: str | None,
    up: float | None,
    change_node: ChangeNode,
    see: See,
) -> None:
    """Only an ACTIVE port whose link is up is up; what cannot be read is absent, not down."""
    seen = see(RdmaCollector, change_node("gpu-node", files={f"{PORT}/{name}": text for name, text in files.items()}))
    found = [seen[signal, "mlx5_0:1"] for signal in ("rdma_port_state", "rdma_port_phys_state", "rdma_port_up")]

    assert [state, phys_state, up] == [one.value if isinstance(one, Sample) else None for one in found]


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"NCCL_IB_HCA": "=mlx5_0"}, [1.0, 0.0, 0.0]),
        ({"NCCL_IB_HCA": "mlx5_0"}, [1.0, 1.0, 0.0]),  # a prefix takes the virtual function too
        ({"NCCL_IB_HCA": "mlx5_0:2"}, [0.0, 0.0, 0.0]),
        ({"NCCL_IB_HCA": "^mlx5_1"}, [1.0, 1.0, 0.0]),
        ({"NCCL_IB_DISABLE": "1", "NCCL_IB_HCA": "mlx5"}, [0.0, 0.0, 0.0]),
        ({"NCCL_NET": "Socket"}, [0.0, 0.0, 0.0]),
        ({"UCX_NET_DEVICES": "mlx5_1:1"}, [None, None, 1.0]),
        ({"NCCL_IB_DISABLE": "0"}, [None, None, None]),
        ({}, [None, None, None]),
    ],
)
def test_ports_of_the_job(
    environ: dict[str, str], expected: list[float | None], change_node: ChangeNode, see: See
) -> None:
    """The settings say which ports the job uses; where they are silent, nobody claims to know."""
    seen = see(RdmaCollector, change_node("gpu-node", node={"environ": environ}))

    assert dict(zip(("mlx5_0:1", "mlx5_0_vf0:1", "mlx5_1:1"), expected, strict=True)) == used(seen)


def test_no_rdma(pod_node: Node, change_node: ChangeNode) -> None:
    """A host without RDMA stack, one with it but without a device, and an unreadable /sys are told apart."""
    with pytest.raises(UnavailableError, match="no RDMA stack"):
        list(RdmaCollector(Context(pod_node)).collect())
    empty = change_node(
        "gpu-node", files={f"sys/class/infiniband/{name}": None for name in ("mlx5_0", "mlx5_1", "mlx5_0_vf0")}
    )
    with pytest.raises(UnavailableError, match="there is no device"):
        list(RdmaCollector(Context(empty)).collect())


def test_unreadable_sys(change_node: ChangeNode) -> None:
    """Without /sys nobody knows whether there is RDMA: that is no "not there"."""
    blind = change_node("pod", files={"sys": None})

    with pytest.raises(CollectorError, match="cannot be read") as caught:
        list(RdmaCollector(Context(blind)).collect())
    assert not isinstance(caught.value, UnavailableError)


class OneHangs:
    """A node one of whose devices does not answer."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def __getattr__(self, name: str) -> object:
        return getattr(self._node, name)

    def read_all(self, paths: Iterable[str]) -> Mapping[str, bytes | OSError]:
        """Hang on mlx5_0."""
        paths = list(paths)
        if any("/mlx5_0/" in path for path in paths):
            raise HungError("read(/sys/class/infiniband/mlx5_0/ports/1/state) has not returned for 7.0 s", seconds=7.0)
        return self._node.read_all(paths)


def test_hung_device(gpu_node: Node) -> None:
    """A device that does not answer is absent with the read that hangs; the others are read."""
    seen: Sequence[object] = list(RdmaCollector(Context(OneHangs(gpu_node))).collect())  # type: ignore[arg-type]
    pending = {
        one.subject.name: one.value
        for one in seen
        if isinstance(one, Sample) and one.signal == "rdma_call_pending_seconds"
    }
    absents = {one.signal for one in seen if isinstance(one, Absent) and one.subject.name == "mlx5_0:1"}

    assert {"mlx5_0:1": 7.0, "mlx5_0_vf0:1": 0.0, "mlx5_1:1": 0.0} == pending
    assert {"rdma_port_state", "rdma_port_up", "rdma_port_symbol_errors_total"} <= absents


def test_elastic_fabric_adapter(change_node: ChangeNode, see: See) -> None:
    """EFA has no classic counters and counts bytes, not words, in hw_counters."""
    files = {
        f"{PORT}/counters": None,
        f"{PORT}/hw_counters/tx_bytes": "123\n",
        f"{PORT}/hw_counters/rx_bytes": "456\n",
        f"{PORT}/hw_counters/tx_pkts": "7\n",
        f"{PORT}/hw_counters/rx_pkts": "8\n",
        f"{PORT}/hw_counters/unresponsive_remote_events": "9\n",
    }
    seen = see(RdmaCollector, change_node("gpu-node", files=files))

    assert (123.0, 456.0, 9.0) == (
        value(seen, "rdma_port_transmit_bytes_total", "mlx5_0:1"),
        value(seen, "rdma_port_receive_bytes_total", "mlx5_0:1"),
        value(seen, "rdma_port_unresponsive_peers_total", "mlx5_0:1"),
    )
    assert ("rdma_port_symbol_errors_total", "mlx5_0:1") not in seen


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("400 Gb/sec (4X NDR)", (50e9, 4)),
        ("200 Gb/sec (2X NDR)", (25e9, 2)),
        ("2.5 Gb/sec (1X SDR)", (0.3125e9, 1)),
        ("100 Gb/sec", (12.5e9, None)),
        ("Unknown", None),
        ("", None),
    ],
)
def test_rates(text: str, rate: tuple[float, int | None] | None) -> None:
    """The rate is in bits, the lanes stand in brackets."""
    assert rate == parse_rate(text)


@pytest.mark.parametrize(
    ("text", "lid"), [("0x21", 33), ("0x0", 0), ("-1", None), ("0x", None), ("33", None), ("0x1_0", None)]
)
def test_lids(text: str, lid: int | None) -> None:
    """Identifiers are hexadecimal with their prefix, and nothing else is one."""
    assert lid == parse_lid(text)


@given(st.text(max_size=40))
def test_garbage(text: str) -> None:
    """No text makes a parser fail, and no state is invented."""
    assert parse_state(text, STATES) in (None, *STATES[1:])
    parse_rate(text)
    parse_lid(text)


class MovedClock:
    """A clock that a test moves."""

    now = 1000.0

    def monotonic(self) -> float:
        """Seconds as set."""
        return self.now

    def unix(self) -> float:
        """The same."""
        return self.now


def test_what_is_read_once_a_minute_bears_the_time_of_its_reading(gpu_node: Node) -> None:
    """Ten seconds later the state of a port is new, its MTU and its GIDs are as they were; a minute later all is new."""
    clock = MovedClock()
    collector = RdmaCollector(Context(gpu_node, clock=clock))
    slow = {"rdma_port_gids", "rdma_port_mtu_bytes", "rdma_port_max_mtu_bytes"}

    def times() -> tuple[set[float], set[float]]:
        seen = [one for one in collector.collect() if isinstance(one, Sample)]
        return {one.time for one in seen if one.signal in slow}, {one.time for one in seen if one.signal not in slow}

    for now, read in ((1000.0, 1000.0), (1010.0, 1000.0), (1050.0, 1000.0)):
        clock.now = now
        assert times() == ({read}, {now})
    for now, read in ((1060.0, 1000.0), (1070.0, 1000.0), (1080.0, 1000.0), (1090.0, 1090.0)):
        clock.now = now
        assert times() == ({read}, {now})
    age = {signal.name: signal.max_age_seconds for signal in SIGNALS}
    assert all(age[name] > 2 * 60 for name in slow)


def test_a_gid_table_that_cannot_be_read_is_not_empty(gpu_node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """No entry is told where the table could not be looked at."""

    def refuse(*arguments: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("aidiag.collectors.rdma.collector.read_gids", refuse)
    seen = list(RdmaCollector(Context(gpu_node)).collect())
    assert not [one for one in seen if isinstance(one, Sample) and one.signal == "rdma_port_gids"]
    assert "Permission denied" in next(
        one.reason for one in seen if isinstance(one, Absent) and one.signal == "rdma_port_gids"
    )
