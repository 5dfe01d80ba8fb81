"""Counters of an earlier reading."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aidiag.collectors import COLLECTORS
from aidiag.collectors.collector import Context
from aidiag.collectors.earlier import earlier_counters
from aidiag.collectors.node import Node
from aidiag.collectors.observation import Sample
from aidiag.collectors.rdma import RdmaCollector

ChangeNode = Callable[..., Node]
BOOT_ID = "proc/sys/kernel/random/boot_id"


class FakeClock:
    """A clock that stands still."""

    def monotonic(self) -> float:
        """A time."""
        return 5000.0

    def unix(self) -> float:
        """A time since 1970."""
        return 1_700_000_000.0


def link_downs(samples: list[Sample]) -> list[tuple[float, float | str]]:
    """(time, value) of the link_downed counter of the InfiniBand port."""
    return [
        (one.time, one.value)
        for one in samples
        if (one.signal, one.subject.name) == ("rdma_port_link_downed_total", "mlx5_0:1")
    ]


def test_difference_over_the_age(gpu_node: Node) -> None:
    """The earlier value lies as far back as the reading is old; states are not taken over."""
    context = Context(gpu_node, clock=FakeClock())
    now = [one for one in RdmaCollector(context).collect() if isinstance(one, Sample)]
    earlier = earlier_counters(COLLECTORS.values(), context)

    assert [(4400.0, 0.0), (5000.0, 1.0)] == link_downs(earlier) + link_downs(now)
    assert {"host", "port", "nic"} >= {one.subject.kind for one in earlier}
    assert not [one for one in earlier if one.signal == "rdma_port_up"]


def test_never_measured_before(pod_node: Node) -> None:
    """Without an earlier reading there is nothing."""
    assert [] == earlier_counters(COLLECTORS.values(), Context(pod_node))


@pytest.mark.parametrize("boot", ["another\n", None])
def test_started_anew(boot: str | None, change_node: ChangeNode) -> None:
    """Counters of another boot, or of an unknown one, are no baseline."""
    assert [] == earlier_counters([RdmaCollector], Context(change_node("gpu-node", files={BOOT_ID: boot})))
