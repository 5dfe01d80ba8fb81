"""Network interfaces, and which of them the job uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
import pytest

from aidiag.collectors.collector import Context
from aidiag.collectors.live import LiveNode
from aidiag.collectors.network import NetworkCollector
from aidiag.collectors.node import Node
from aidiag.collectors.observation import Absent, Sample

Seen = Mapping[tuple[str, ...], Sample | Absent]
See = Callable[[type[NetworkCollector], Node], Seen]
ChangeNode = Callable[..., Node]
ETH0 = "sys/devices/pci0000:26/0000:26:01.0/0000:29:00.0/net/eth0"


def value(seen: Seen, *key: str) -> float | str:
    """The value of a sample."""
    one = seen[key]
    assert isinstance(one, Sample), one
    return one.value


def used(seen: Seen) -> dict[str, float | str]:
    """Interface to whether the job uses it."""
    return {key[1]: one.value for key, one in seen.items() if key[0] == "net_used_by_job" and isinstance(one, Sample)}


def missing(seen: Seen) -> dict[str, float | str]:
    """Variable to whether it names an interface that is not there."""
    return {
        key[2]: one.value
        for key, one in seen.items()
        if key[0] == "net_chosen_interface_missing" and isinstance(one, Sample)
    }


def test_slurm_node(gpu_node: Node, see: See) -> None:
    """State, MTU, speed and counters of each interface come from sysfs; the setting chooses."""
    seen = see(NetworkCollector, gpu_node)

    assert {"eth0": 1.0, "ib0": 0.0, "docker0": 0.0} == used(seen)
    assert {"NCCL_SOCKET_IFNAME": 0.0} == missing(seen)
    assert {
        "net_up": 1.0,
        "net_operstate": "up",
        "net_mtu_bytes": 1500.0,
        "net_speed_bytes_per_second": 12.5e9,
        "net_duplex": "full",
        "net_receive_bytes_total": 9000.0,
        "net_transmit_bytes_total": 8000.0,
        "net_receive_dropped_total": 4.0,
        "net_carrier_changes_total": 2.0,
    } == {
        signal: value(seen, signal, "eth0")
        for signal in (
            "net_up",
            "net_operstate",
            "net_mtu_bytes",
            "net_speed_bytes_per_second",
            "net_duplex",
            "net_receive_bytes_total",
            "net_transmit_bytes_total",
            "net_receive_dropped_total",
            "net_carrier_changes_total",
        )
    }
    assert 1.0 == value(seen, "net_info", "eth0", "mlx5_core", "physical", "10.20.0.17")
    assert 1.0 == value(seen, "net_info", "docker0", "", "virtual", "172.17.0.1")
    assert 0.0 == value(seen, "net_up", "docker0")
    assert 1.0 == value(seen, "net_setting_info", "gpu-1", "NCCL_SOCKET_IFNAME", "eth0", "eth0")


def test_pod_without_settings(pod_node: Node, see: See) -> None:
    """Without a setting, the interface that leads to the master is the job's."""
    seen = see(NetworkCollector, pod_node)

    assert {"eth0": 1.0} == used(seen)
    assert {} == missing(seen)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"NCCL_SOCKET_IFNAME": "eth0", "GLOO_SOCKET_IFNAME": "ib0"}, {"eth0": 1.0, "ib0": 1.0, "docker0": 0.0}),
        ({"NCCL_SOCKET_IFNAME": "^lo,docker"}, {"eth0": 1.0, "ib0": 1.0, "docker0": 0.0}),
        ({"NCCL_SOCKET_IFNAME": "docker"}, {"eth0": 0.0, "ib0": 0.0, "docker0": 1.0}),
        ({"MASTER_ADDR": "gpu-2"}, {"eth0": 1.0, "ib0": 0.0, "docker0": 0.0}),
        ({"MASTER_ADDR": "10.60.5.5"}, {"eth0": 0.0, "ib0": 1.0, "docker0": 0.0}),
        ({"MASTER_ADDR": "localhost"}, {"eth0": 0.0, "ib0": 0.0, "docker0": 0.0, "lo": 1.0}),
    ],
)
def test_chosen_interfaces(
    environ: dict[str, str], expected: dict[str, float], change_node: ChangeNode, see: See
) -> None:
    """The settings choose, else the way to the master; loopback is told of only where it is used."""
    names = {"getaddrinfo": {"gpu-2": ["10.20.0.18"], "localhost": ["127.0.0.1"], "10.60.5.5": ["10.60.5.5"]}}

    assert expected == used(see(NetworkCollector, change_node("gpu-node", node={"environ": environ, **names})))


def test_interface_that_is_not_there(change_node: ChangeNode, see: See) -> None:
    """A setting that names an absent interface is told with its variable; the twin with a good name is not."""
    sick = see(NetworkCollector, change_node("gpu-node", node={"environ": {"NCCL_SOCKET_IFNAME": "ens9"}}))

    assert {"NCCL_SOCKET_IFNAME": 1.0} == missing(sick)
    assert {0.0} == set(used(sick).values())


def test_setting_in_a_file_of_nccl(change_node: ChangeNode, see: See) -> None:
    """/etc/nccl.conf counts where the environment is silent."""
    node = change_node(
        "gpu-node", files={"etc/nccl.conf": "# site\nNCCL_SOCKET_IFNAME=ib0\n"}, node={"environ": {"HOME": "/root"}}
    )

    assert {"eth0": 0.0, "ib0": 1.0, "docker0": 0.0} == used(see(NetworkCollector, node))


@pytest.mark.parametrize(
    ("node", "reason", "expected"),
    [
        ({"environ": {}}, "no setting and no MASTER_ADDR", False),
        ({"environ": {"MASTER_ADDR": "slow-dns"}}, "getaddrinfo(slow-dns) has not returned", True),
        ({"environ": {"MASTER_ADDR": "nobody"}}, "does not resolve", True),
        ({"environ": {"MASTER_ADDR": "10.9.9.9"}, "routes": []}, "no route leads to MASTER_ADDR", True),
    ],
)
def test_unknown_use(node: dict[str, object], reason: str, expected: bool, change_node: ChangeNode, see: See) -> None:
    """Where nobody knows which interface the job uses, none is called unused."""
    names = {"slow-dns": {"hang": True}, "nobody": {"error": "EAI_NONAME"}, "10.9.9.9": ["10.9.9.9"]}
    seen = see(NetworkCollector, change_node("gpu-node", node={"getaddrinfo": names, **node}))

    absent = seen["net_used_by_job", "gpu-1"]
    assert isinstance(absent, Absent)
    assert reason in absent.reason
    assert expected == absent.expected
    assert {} == used(seen)


def test_environment_that_is_not_known(change_node: ChangeNode, see: See) -> None:
    """Without the job's environment, its settings are unknown, not fine."""
    seen = see(NetworkCollector, change_node("gpu-node", node={"environ": None}))

    assert isinstance(seen["net_chosen_interface_missing", "gpu-1"], Absent)
    assert 1500.0 == value(seen, "net_mtu_bytes", "eth0")


@pytest.mark.parametrize(
    ("files", "up"),
    [
        ({f"{ETH0}/operstate": "down\n"}, 0.0),
        ({f"{ETH0}/carrier": "0\n"}, 0.0),
        ({f"{ETH0}/flags": "0x1002\n", f"{ETH0}/carrier": None}, 0.0),
        ({f"{ETH0}/operstate": "unknown\n"}, 1.0),  # tunnels and the like have only carrier
        ({f"{ETH0}/carrier": None}, 1.0),
        ({f"{ETH0}/operstate": None, f"{ETH0}/carrier": None}, None),
    ],
)
def test_up(files: dict[str, str | None], up: float | None, change_node: ChangeNode, see: See) -> None:
    """Up is administratively up with carrier; where neither can be read, it is absent."""
    one = see(NetworkCollector, change_node("gpu-node", files=files))["net_up", "eth0"]

    assert up == (one.value if isinstance(one, Sample) else None)


@pytest.mark.parametrize("speed", ["-1\n", "4294967295\n", "", "Unknown!\n"])
def test_unknown_speed(speed: str, change_node: ChangeNode, see: See) -> None:
    """A speed that the driver does not know is absent and nobody's fault, not zero."""
    one = see(NetworkCollector, change_node("gpu-node", files={f"{ETH0}/speed": speed}))
    absent = one["net_speed_bytes_per_second", "eth0"]

    assert isinstance(absent, Absent)
    assert not absent.expected


def test_bad_counter_keeps_its_neighbours(change_node: ChangeNode, see: See) -> None:
    """One statistic that cannot be read is absent alone."""
    files = {f"{ETH0}/statistics/rx_errors": "nonsense\n", f"{ETH0}/statistics/tx_errors": None}
    seen = see(NetworkCollector, change_node("gpu-node", files=files))

    assert isinstance(seen["net_receive_errors_total", "eth0"], Absent)
    assert isinstance(seen["net_transmit_errors_total", "eth0"], Absent)
    assert 4.0 == value(seen, "net_receive_dropped_total", "eth0")


def test_many_container_interfaces(change_node: ChangeNode, see: See, tmp_path: Path) -> None:
    """Interfaces of containers without an address are not told of, and all are bounded."""
    node = change_node("pod", node={"addresses": {f"veth{n}": [f"10.0.{n}.1/24"] for n in range(100)}})
    tree = tmp_path / "copies" / "pod"
    for n in range(120):
        folder = tree / f"sys/devices/virtual/net/veth{n}"
        folder.mkdir()
        (folder / "operstate").write_text("up\n")
        (tree / f"sys/class/net/veth{n}").symlink_to(f"../../devices/virtual/net/veth{n}")
    (tree / "sys/class/net/bonding_masters").write_text("\n")
    told = {key[1] for key in see(NetworkCollector, node) if key[0] == "net_info"}

    assert 64 == len(told)
    assert not {f"veth{n}" for n in range(100, 120)} & told


def test_name_of_odd_bytes(change_node: ChangeNode, see: See, tmp_path: Path) -> None:
    """An interface name that is not UTF-8 is escaped, and does not hide the others."""
    node = change_node("gpu-node")
    (tmp_path / "copies/gpu-node/sys/class/net/eth\udcff").symlink_to("eth0")
    names = {key[1] for key in see(NetworkCollector, node) if key[0] == "net_info"}

    assert {"eth0", "ib0", "docker0", "eth\\xff"} == names


def test_resolved_name_is_kept(change_node: ChangeNode) -> None:
    """The master's name is not looked up at each reading."""
    node = change_node("gpu-node", node={"environ": {"MASTER_ADDR": "gpu-1"}})
    asked: list[str] = []

    class Asked:
        """The node, with its questions for names written down."""

        def __getattr__(self, name: str) -> object:
            return getattr(node, name)

        def resolve(self, name: str) -> list[str]:
            """Write down and answer."""
            asked.append(name)
            return ["10.20.0.17"]

    collector = NetworkCollector(Context(Asked()))  # type: ignore[arg-type]
    first, second = list(collector.collect()), list(collector.collect())

    assert ["gpu-1"] == asked
    assert len(first) == len(second)


def test_this_machine(see: See) -> None:
    """The live interfaces are those of psutil, with their MTU."""
    node = LiveNode()
    seen = see(NetworkCollector, node)
    node.close()
    stats = psutil.net_if_stats()
    told = {key[1] for key in seen if key[0] == "net_info"}

    assert told <= set(stats)
    assert {name: stats[name].mtu for name in told} == {name: value(seen, "net_mtu_bytes", name) for name in told}
    assert {name for name in told if stats[name].isup} >= {n for n in told if value(seen, "net_up", n) == 1.0}
