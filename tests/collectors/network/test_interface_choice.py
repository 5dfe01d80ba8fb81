"""Which interfaces a job uses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aidiag.collectors.answers import Route
from aidiag.collectors.job_settings import parse_nccl_file
from aidiag.collectors.network.interface_choice import choices, interface_towards
from aidiag.collectors.network.interfaces import Interface

INTERFACES = [
    Interface("lo", "loopback", "", True, ("127.0.0.1/8",)),
    Interface("eth0", "physical", "mlx5_core", True, ("10.20.0.17/24", "fd00::17/64")),
    Interface("eth1", "physical", "mlx5_core", False, ()),
    Interface("ib0", "physical", "mlx5_core", True, ("10.60.0.17/16",)),
    Interface("docker0", "bridge", "", False, ("172.17.0.1/16",)),
]
ADDRESSES = {interface.name: interface.addresses for interface in INTERFACES}
ROUTES = [
    Route("0.0.0.0/0", "10.20.0.1", "eth0"),
    Route("10.70.0.0/16", "10.60.0.1", "ib0"),
    Route("::/0", "fd00::1", "eth0"),
]


@pytest.mark.parametrize(
    ("variable", "value", "taken", "missing"),
    [
        ("NCCL_SOCKET_IFNAME", "eth0", ("eth0",), False),
        ("NCCL_SOCKET_IFNAME", "eth", ("eth0", "eth1"), False),
        ("NCCL_SOCKET_IFNAME", "ib9", (), True),
        ("NCCL_SOCKET_IFNAME", "ib9,eth0", ("eth0",), False),  # NCCL needs one of the list
        ("NCCL_SOCKET_IFNAME", "^lo,docker", ("eth0", "ib0"), False),  # what is down or has no address is left
        ("NCCL_SOCKET_IFNAME", "^lo,eth,ib,docker", (), True),
        ("GLOO_SOCKET_IFNAME", "eth0", ("eth0",), False),
        ("GLOO_SOCKET_IFNAME", "eth0,ib9", ("eth0",), True),  # Gloo needs all of the list
        ("GLOO_SOCKET_IFNAME", "eth", (), True),
        ("UCX_NET_DEVICES", "eth0", ("eth0",), False),
        ("UCX_NET_DEVICES", "mlx5_0:1", (), False),  # an RDMA device that is there
        ("UCX_NET_DEVICES", "mlx5_9:1", (), True),
    ],
)
def test_settings(variable: str, value: str, taken: tuple[str, ...], missing: bool) -> None:
    """Each variable chooses by the rules of its library."""
    (choice,) = choices({variable: value}, INTERFACES, devices=["mlx5_0"])

    assert (variable, value, taken, missing) == (choice.variable, choice.value, choice.interfaces, choice.missing)


def test_no_setting_chooses_nothing() -> None:
    """Variables that are not set, empty, or too short for NCCL choose nothing."""
    assert [] == choices({"GLOO_SOCKET_IFNAME": "", "NCCL_SOCKET_IFNAME": "e", "PATH": "eth0"}, INTERFACES)


@pytest.mark.parametrize(
    ("address", "interface"),
    [
        ("10.20.0.17", "eth0"),  # its own
        ("10.20.0.99", "eth0"),  # in its net
        ("10.60.3.4", "ib0"),
        ("10.70.1.1", "ib0"),  # by the longest route
        ("8.8.8.8", "eth0"),  # by the default route
        ("127.0.0.1", "lo"),
        ("fd00::99", "eth0"),
        ("2001:db8::1", "eth0"),
        ("node-a", None),
    ],
)
def test_way_to_the_master(address: str, interface: str | None) -> None:
    """The own address, then the nearest net, then the longest route."""
    assert interface == interface_towards(address, ADDRESSES, ROUTES)


def test_no_way() -> None:
    """Without a route to it, nothing is guessed."""
    assert interface_towards("8.8.8.8", ADDRESSES, []) is None


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_garbage_addresses(goal: str, address: str, destination: str) -> None:
    """No text makes the search fail."""
    interface_towards(goal, {"x": [address]}, [Route(destination, "", "y")])
    interface_towards("10.0.0.1", {"x": [address]}, [Route(destination, "", "y")])


@pytest.mark.parametrize(
    ("addresses", "best"),
    [
        (("fe80::1/64", "10.0.0.1/24"), "10.0.0.1"),
        (("fe80::1/64", "fd00::1/64"), "fd00::1"),
        (("169.254.1.1/16", "fd00::1/64"), "fd00::1"),
        ((), ""),
    ],
)
def test_address_that_others_use(addresses: tuple[str, ...], best: str) -> None:
    """A link-local address stands for an interface only where there is no other."""
    assert best == Interface("eth0", "physical", "", True, addresses).address


def test_nccl_file() -> None:
    """NAME=value lines of NCCL, comments and other variables left out, the first of equals wins."""
    text = "# comment\nNCCL_SOCKET_IFNAME=eth0\nNCCL_SOCKET_IFNAME=eth1\nHOME=/x\nnonsense\nNCCL_IB_HCA==mlx5_0\n"

    assert {"NCCL_SOCKET_IFNAME": "eth0", "NCCL_IB_HCA": "=mlx5_0"} == parse_nccl_file(text)
