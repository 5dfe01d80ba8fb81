"""What ibv_devinfo, ibstat and ibstatus say of ports becomes one event a port, with one wording of its state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aidiag.collectors.logs.compiled import Catalogue
from aidiag.collectors.logs.stream import LogStream

Read = Callable[..., list[Any]]

IBV_DEVINFO = """\
hca_id: mlx5_0
        transport:                      InfiniBand (0)
        fw_ver:                         20.31.1014
        phys_port_cnt:                  1
                port:   1
                        state:                  PORT_DOWN (1)
                        max_mtu:                4096 (5)
                        active_mtu:             1024 (3)
                        link_layer:             Ethernet
                        phys_state:             POLLING (2)
"""
IBSTAT = """\
CA 'mlx5_0'
        CA type: MT4123
        Number of ports: 1
        Port 1:
                State: Down
                Physical state: Polling
                Rate: 10
                Link layer: Ethernet
"""
IBSTATUS = """\
Infiniband device 'mlx5_0' port 1 status:
        default gid:     fe80:0000:0000:0000:0000:0000:0000:0001
        state:           1: DOWN
        phys state:      2: Polling
        link_layer:      Ethernet
"""


def ports(events: list[Any]) -> list[dict[str, Any]]:
    """The ports among events that name their device, without what every event has."""
    return [
        {name: value for name, value in one.fields.items() if name not in ("message", "severity")}
        for one in events
        if one.kind == "rdma_port" and "device" in one.fields
    ]


@pytest.mark.parametrize("text", [IBV_DEVINFO, IBSTAT, IBSTATUS])
def test_three_commands_tell_one_fact(read: Read, text: str) -> None:
    """Each command's words for a port that waits for its partner become the same fields."""
    told: dict[str, Any] = {
        "device": "mlx5_0",
        "port": 1,
        "state": "DOWN",
        "physical_state": "POLLING",
        "link": "Ethernet",
    }
    mtu = {"mtu": 1024} if "active_mtu" in text else {}
    told |= mtu
    assert ports(read(text)) == [told]
    assert ports(read("[root@node-a ~]# ibstat\n" + text + "[root@node-a ~]# \n")) == [told]


def test_each_port_of_each_device_is_told(read: Read) -> None:
    """A second device ends the first, and what comes behind the list is not read as a part of it."""
    other = IBSTAT.replace("mlx5_0", "mlx5_1").replace("Down", "Active").replace("Polling", "LinkUp")
    told = ports(read(IBSTAT + other + "step 1: loss 2.0\nState: Down\n"))
    assert [(one["device"], one["state"]) for one in told] == [("mlx5_0", "DOWN"), ("mlx5_1", "ACTIVE")]


@settings(max_examples=100, deadline=None)
@given(lines=st.lists(st.text(alphabet="Port 1:State'CA_\t(4)x", max_size=40), max_size=10))
def test_no_line_breaks_the_reading(catalogue: Catalogue, lines: list[str]) -> None:
    """Whatever follows a device's name, no more ports are told than there are lines."""
    stream = LogStream(catalogue, "job.log", job="j")
    events = [*stream.feed(("CA 'mlx5_0'\n" + "\n".join(lines) + "\n").encode()), *stream.finish()]
    assert len(ports(events)) <= len(lines)
