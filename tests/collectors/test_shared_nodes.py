"""Every recorded node of the shared folder, where it is there: all bases are read whole, and all cases without a crash.

The folder is not part of the repository: $AIDIAG_SHARED, or `shared` beside it, holds nodes/make_node.py.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from aidiag.collectors.collector import Context
from aidiag.collectors.host import HostCollector
from aidiag.collectors.network import NetworkCollector
from aidiag.collectors.observation import Absent, Observation, Sample
from aidiag.collectors.outcome import Outcome
from aidiag.collectors.rdma import RdmaCollector
from aidiag.collectors.recorded import RecordedNode
from aidiag.collectors.runner import run_once

BASES = ("hgx-h100-ib", "hgx-h100-roce", "a100-pcie-2gpu", "l40s-eth", "cpu-only", "k8s-pod-h100")
COLLECTORS = (HostCollector, NetworkCollector, RdmaCollector)


def shared_nodes() -> Path | None:
    """The folder of the generator."""
    named = os.environ.get("AIDIAG_SHARED")
    places = [Path(named)] if named else [Path(__file__).resolve().parents[up] / "shared" for up in (3, 4)]
    return next((place / "nodes" for place in places if (place / "nodes" / "make_node.py").is_file()), None)


NODES = shared_nodes()
pytestmark = pytest.mark.skipif(NODES is None, reason="the shared folder with nodes/make_node.py is not here")
CASES = sorted(path.name for path in NODES.glob("cases/[0-9]*.yaml")) if NODES else []


Collect = Callable[[str], dict[str, Outcome]]


MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Trees have thousands of small files, which some disks take seconds for."""


@pytest.fixture(scope="module")
def collect() -> Collect:
    """What the collectors see on a base or a case (a file name), each laid and read once."""
    assert NODES
    folder = NODES

    @functools.cache
    def see(name: str) -> dict[str, Outcome]:
        what = [str(folder / "cases" / name)] if name.endswith(".yaml") else ["--base", name]
        with tempfile.TemporaryDirectory(prefix="aidiag-nodes-", dir=MEMORY) as tree:
            subprocess.run([sys.executable, "-B", str(folder / "make_node.py"), *what, tree], check=True)
            node = RecordedNode(Path(tree))
            return run_once([kind(Context(node)) for kind in COLLECTORS], deadline_seconds=60)

    return see


def samples(outcome: Outcome) -> Mapping[tuple[str, str], float | str]:
    """(signal, subject) to value, for signals without labels."""
    return {(one.signal, one.subject.name): one.value for one in outcome.observations if isinstance(one, Sample)}


def missed(observations: tuple[Observation, ...]) -> list[str]:
    """What is absent and should not be."""
    return [
        f"{one.signal} {one.subject}: {one.reason}" for one in observations if isinstance(one, Absent) and one.expected
    ]


@pytest.mark.parametrize("base", BASES)
def test_base_is_read_whole(base: str, collect: Collect) -> None:
    """On a healthy node nothing is missing that should be there, and every collector ends well."""
    outcomes = collect(base)

    assert {"host": "ok", "network": "ok"} == {name: outcomes[name].state for name in ("host", "network")}
    assert ("unavailable" if base in ("l40s-eth", "cpu-only") else "ok") == outcomes["rdma"].state
    unreadable = [reason for outcome in outcomes.values() for reason in missed(outcome.observations)]
    if base == "k8s-pod-h100":  # two management ports, whose devices the pod does not get
        unreadable = [reason for reason in unreadable if "mlx5_8" not in reason and "mlx5_9" not in reason]
    assert [] == unreadable


@pytest.mark.parametrize(
    ("base", "used", "ports"),
    [
        ("hgx-h100-ib", {"eth0"}, {f"mlx5_{n}:1" for n in range(8)}),
        ("hgx-h100-roce", {"eth0"}, {f"mlx5_{n}:1" for n in range(8)}),
        ("a100-pcie-2gpu", {"enp97s0"}, {"mlx5_0:1"}),
        ("l40s-eth", {"ens3f0"}, set()),
        ("cpu-only", {"ens3"}, set()),
        ("k8s-pod-h100", {"eth0"}, {f"mlx5_{n}:1" for n in range(8)}),
    ],
)
def test_what_the_job_uses(base: str, used: set[str], ports: set[str], collect: Collect) -> None:
    """Interfaces and ports of the job are those that its settings name, and all of them are up."""
    outcomes = collect(base)
    network, rdma = samples(outcomes["network"]), samples(outcomes["rdma"])

    assert used == {name for (signal, name), value in network.items() if signal == "net_used_by_job" and value == 1}
    assert ports == {name for (signal, name), value in rdma.items() if signal == "rdma_port_used_by_job" and value == 1}
    assert {1.0} >= {network["net_up", name] for name in used} | {rdma["rdma_port_up", name] for name in ports}


@pytest.mark.parametrize("case", CASES)
def test_case_is_read(case: str, collect: Collect) -> None:
    """However sick the node, no collector fails: it has values, and reasons for the rest."""
    outcomes = collect(case)

    assert {"failed", "hung"}.isdisjoint(outcome.state for outcome in outcomes.values())
    assert all(one.reason for outcome in outcomes.values() for one in outcome.observations if isinstance(one, Absent))


@pytest.mark.parametrize(
    ("case", "collector", "key", "expected"),
    [
        ("010-ib-init-and-polling.yaml", "rdma", ("rdma_port_state", "mlx5_1:1"), "INIT"),
        ("010-ib-init-and-polling.yaml", "rdma", ("rdma_port_lid", "mlx5_1:1"), 0.0),
        ("010-ib-init-and-polling.yaml", "rdma", ("rdma_port_phys_state", "mlx5_6:1"), "Polling"),
        ("010-ib-init-and-polling.yaml", "network", ("net_up", "ib6"), 0.0),
        ("011-ib-half-width-saturated-counters.yaml", "rdma", ("rdma_port_lanes", "mlx5_4:1"), 2.0),
        (
            "011-ib-half-width-saturated-counters.yaml",
            "rdma",
            ("rdma_port_link_error_recoveries_total", "mlx5_0:1"),
            255.0,
        ),
        ("012-ib-mtu-2048-no-peermem.yaml", "rdma", ("rdma_port_max_mtu_bytes", "mlx5_0:1"), 4096.0),
        ("015-memlock-and-nofile.yaml", "host", ("host_limit_memlock_bytes", "h100-017"), 65536.0),
        ("016-pod-small-shm-two-cpus.yaml", "host", ("host_cpus_allowed", "llm-worker-0"), 2.0),
        ("025-healthy-down-management-port-and-vfs.yaml", "rdma", ("rdma_port_used_by_job", "mlx5_9:1"), 0.0),
    ],
)
def test_sick_source_is_seen(
    case: str, collector: str, key: tuple[str, str], expected: float | str, collect: Collect
) -> None:
    """What makes a node sick stands in the samples."""
    outcomes = collect(case)

    assert expected == samples(outcomes[collector])[key]
