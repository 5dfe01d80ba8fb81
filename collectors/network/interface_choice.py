"""Which network interfaces a job uses: those that its settings take, else the one that leads to the master."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from aidiag.collectors.answers import Route
from aidiag.collectors.device_filter import DeviceFilter, parse_gloo, parse_nccl, parse_ucx
from aidiag.collectors.network.interfaces import Interface

PARSERS: Mapping[str, Callable[[str], DeviceFilter]] = {
    "NCCL_SOCKET_IFNAME": parse_nccl,
    "GLOO_SOCKET_IFNAME": parse_gloo,
    "TP_SOCKET_IFNAME": parse_gloo,
    "HOROVOD_GLOO_IFACE": parse_gloo,
    "UCX_NET_DEVICES": parse_ucx,
}
"""Variables that choose interfaces, and by whose rules."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a setting makes of this node's interfaces: those that it takes, and whether it names one that is not there."""

    variable: str
    value: str
    interfaces: tuple[str, ...]
    missing: bool


def choices(settings: Mapping[str, str], interfaces: Iterable[Interface], devices: Iterable[str] = ()) -> list[Choice]:
    """What the job's settings choose. `devices` are the RDMA devices, which UCX_NET_DEVICES may name as well.

    NCCL and UCX need one interface of their list, Gloo needs all of it.
    """
    found = []
    interfaces = list(interfaces)
    for variable, parse in PARSERS.items():
        value = settings.get(variable, "")
        if len(value) < (2 if parse is parse_nccl else 1):  # NCCL itself ignores a value of one character
            continue
        chosen = parse(value)
        taken = tuple(interface.name for interface in interfaces if _takes(chosen, interface))
        if parse is parse_gloo:
            here = {interface.name for interface in interfaces}
            missing = not {name for name, _ in chosen.entries} <= here
        elif parse is parse_ucx:
            missing = not taken and not any(chosen.includes(device) for device in devices)
        else:
            missing = not taken
        found.append(Choice(variable, value, taken, missing))
    return found


def _takes(chosen: DeviceFilter, interface: Interface) -> bool:
    """A list that excludes leaves everything that is up and has an address; one that includes takes what it names."""
    if chosen.exclude and not (interface.up and interface.addresses):
        return False
    return chosen.includes(interface.name)


def interface_towards(address: str, addresses: Mapping[str, Sequence[str]], routes: Iterable[Route]) -> str | None:
    """The interface over which this node talks with an address of the job: the one that has it, else the one in whose
    net it lies, else that of the longest route. None where no route leads there.
    """
    try:
        goal = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    best: tuple[int, str] | None = None
    own = [(address, name) for name, entries in addresses.items() for address in entries]
    for net, name in [*own, *((route.destination, route.interface) for route in routes)]:
        try:
            there = ipaddress.ip_interface(net)
        except ValueError:
            continue
        if there.version != goal.version or goal not in there.network:
            continue
        nearness = there.max_prefixlen + 1 if there.ip == goal and (net, name) in own else there.network.prefixlen
        if best is None or nearness > best[0]:
            best = (nearness, name)
    return best[1] if best else None
