"""rtnetlink: messages are parsed, and the live answers agree with psutil and /proc."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

import psutil
from hypothesis import given
from hypothesis import strategies as st

from aidiag.collectors.live import netlink


def attribute(kind: int, payload: bytes) -> bytes:
    """A struct rtattr with its padding."""
    return struct.pack("=HH", len(payload) + 4, kind) + payload + b"\0" * (-len(payload) % 4)


def test_address_message() -> None:
    """The local address of an interface is read, not the one of the other end."""
    body = struct.pack("=BBBBI", socket.AF_INET, 24, 0, 0, 7)
    body += attribute(1, bytes([10, 0, 0, 2])) + attribute(2, bytes([10, 0, 0, 1])) + attribute(3, b"eth0\0")

    assert (7, "10.0.0.1/24") == netlink.parse_address(body)


def test_route_messages() -> None:
    """A default route has no destination attribute; the local table is left out; each next hop is a route."""

    def header(table: int, prefix: int) -> bytes:
        return struct.pack("=8BI", socket.AF_INET, prefix, 0, 0, table, 3, 0, 1, 0)

    def index(number: int) -> bytes:
        return struct.pack("=I", number)

    gateway = attribute(5, bytes([10, 0, 0, 254]))
    hop = struct.pack("=HBBI", 8 + len(gateway), 0, 0, 3) + gateway
    net = attribute(1, bytes([10, 1, 0, 0]))

    assert [("0.0.0.0/0", "10.0.0.254", 2)] == netlink.parse_route(header(254, 0) + attribute(4, index(2)) + gateway)
    assert [("10.1.0.0/16", "", 2)] == netlink.parse_route(header(254, 16) + net + attribute(4, index(2)))
    assert [("10.1.0.0/16", "10.0.0.254", 3)] * 2 == netlink.parse_route(header(254, 16) + net + attribute(9, hop * 2))
    assert [] == netlink.parse_route(header(255, 32) + net + attribute(4, index(2)))


@given(st.binary(max_size=120))
def test_garbage_is_no_message(data: bytes) -> None:
    """No bytes make the parsers fail."""
    netlink.parse_address(data)
    netlink.parse_route(data)
    list(netlink.parse_attributes(data))


@given(st.binary(max_size=80), st.sampled_from([2, 10]))
def test_garbage_attributes(data: bytes, family: int) -> None:
    """Broken attributes behind a good header give nothing, or an address."""
    netlink.parse_route(struct.pack("=8BI", family, 24, 0, 0, 254, 3, 0, 1, 0) + data)
    netlink.parse_address(struct.pack("=BBBBI", family, 24, 0, 0, 1) + data)


def test_addresses_agree_with_psutil() -> None:
    """What this machine has is what psutil says that it has."""
    families = (socket.AF_INET, socket.AF_INET6)
    expected = {
        (name, entry.address.partition("%")[0])
        for name, entries in psutil.net_if_addrs().items()
        for entry in entries
        if entry.family in families
    }

    assert expected == {
        (name, address.partition("/")[0]) for name, addresses in netlink.addresses().items() for address in addresses
    }


def test_routes_agree_with_proc() -> None:
    """The IPv4 routes are those of /proc/net/route."""
    lines = [line.split() for line in Path("/proc/net/route").read_text().splitlines()[1:]]
    expected = {(fields[0], socket.inet_ntoa(struct.pack("=I", int(fields[1], 16)))) for fields in lines}

    assert expected == {
        (route.interface, route.destination.partition("/")[0])
        for route in netlink.routes()
        if ":" not in route.destination
    }
