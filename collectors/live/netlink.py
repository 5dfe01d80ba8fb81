"""Addresses and routes of this network namespace by rtnetlink(7)."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

from aidiag.collectors.answers import Route

RTM_NEWADDR, RTM_GETADDR, RTM_NEWROUTE, RTM_GETROUTE = 20, 22, 24, 26
NLMSG_ERROR, NLMSG_DONE = 2, 3
NLM_F_REQUEST, NLM_F_DUMP = 0x1, 0x300
IFA_ADDRESS, IFA_LOCAL = 1, 2
RTA_DST, RTA_OIF, RTA_GATEWAY, RTA_MULTIPATH = 1, 4, 5, 9
RT_TABLE_MAIN, RTN_UNICAST = 254, 1
TIMEOUT_SECONDS = 2.0


def addresses() -> dict[str, list[str]]:
    """Interface name to its addresses as `address/prefix length`. Raises OSError."""
    found: dict[str, list[str]] = {}
    for message in dump(RTM_GETADDR):
        entry = parse_address(message)
        if entry:
            found.setdefault(interface_name(entry[0]), []).append(entry[1])
    return found


def routes() -> list[Route]:
    """The unicast routes of the main table. Raises OSError."""
    return [
        Route(destination, gateway, interface_name(index))
        for message in dump(RTM_GETROUTE)
        for destination, gateway, index in parse_route(message)
    ]


def dump(request: int) -> Iterator[bytes]:
    """The bodies of the answers to a dump request."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE) as channel:
        channel.settimeout(TIMEOUT_SECONDS)
        channel.send(struct.pack("=IHHIIB3x", 20, request, NLM_F_REQUEST | NLM_F_DUMP, 1, 0, socket.AF_UNSPEC))
        while True:
            data = channel.recv(1 << 18)
            while len(data) >= 16:
                length, kind = struct.unpack_from("=IH", data)
                if kind == NLMSG_DONE:
                    return
                if kind == NLMSG_ERROR:
                    (code,) = struct.unpack_from("=i", data, 16)
                    raise OSError(-code, "netlink refused the request")
                if length < 16:
                    return
                yield data[16:length]
                data = data[(length + 3) & ~3 :]


def parse_address(message: bytes) -> tuple[int, str] | None:
    """(interface index, address/prefix) of an RTM_NEWADDR body (struct ifaddrmsg and attributes)."""
    if len(message) < 8:
        return None
    family, prefix, _, _, index = struct.unpack_from("=BBBBI", message)
    attributes = dict(parse_attributes(message[8:]))
    raw = attributes.get(IFA_LOCAL) or attributes.get(IFA_ADDRESS)
    text = _address(family, raw)
    return (index, f"{text}/{prefix}") if text else None


def parse_route(message: bytes) -> list[tuple[str, str, int]]:
    """(destination/prefix, gateway, interface index) for each next hop of an RTM_NEWROUTE body (struct rtmsg)."""
    if len(message) < 12:
        return []
    family, prefix, _, _, table, _, _, kind = struct.unpack_from("=8B", message)
    if table != RT_TABLE_MAIN or kind != RTN_UNICAST or family not in (socket.AF_INET, socket.AF_INET6):
        return []
    attributes = dict(parse_attributes(message[12:]))
    destination = _address(family, attributes.get(RTA_DST)) or ("0.0.0.0" if family == socket.AF_INET else "::")
    hops = [attributes]
    if RTA_MULTIPATH in attributes:
        hops = [{RTA_OIF: struct.pack("=I", index), **more} for index, more in _next_hops(attributes[RTA_MULTIPATH])]
    return [
        (f"{destination}/{prefix}", _address(family, hop.get(RTA_GATEWAY)), struct.unpack("=I", hop[RTA_OIF])[0])
        for hop in hops
        if len(hop.get(RTA_OIF, b"")) == 4
    ]


def parse_attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(type, payload) of each attribute (struct rtattr); stops at one that does not fit."""
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if not 4 <= length <= len(data):
            return
        yield kind & 0x3FFF, data[4:length]
        data = data[(length + 3) & ~3 :]


def _next_hops(data: bytes) -> Iterator[tuple[int, dict[int, bytes]]]:
    """(interface index, attributes) of each struct rtnexthop."""
    while len(data) >= 8:
        length, _, _, index = struct.unpack_from("=HBBI", data)
        if not 8 <= length <= len(data):
            return
        yield index, dict(parse_attributes(data[8:length]))
        data = data[(length + 3) & ~3 :]


def _address(family: int, raw: bytes | None) -> str:
    sizes: dict[int, int] = {socket.AF_INET: 4, socket.AF_INET6: 16}
    return socket.inet_ntop(family, raw) if raw and len(raw) == sizes.get(family) else ""


def interface_name(index: int) -> str:
    """The name of an interface, its number where it has gone meanwhile."""
    try:
        return socket.if_indextoname(index)
    except OSError:
        return str(index)
