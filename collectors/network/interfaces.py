"""Network interfaces as sysfs shows them (Documentation/ABI/testing/sysfs-class-net)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from aidiag.collectors.node import Node, decode, printable

FOLDER = "/sys/class/net"
FILES = ("operstate", "carrier", "flags", "type", "mtu", "speed", "duplex", "carrier_changes")
STATISTICS = ("rx_bytes", "tx_bytes", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped")
IFF_UP, IFF_LOOPBACK = 0x1, 0x8
ARPHRD_LOOPBACK = "772"
DEVICE_TYPES = frozenset({"bond", "bridge", "macvlan", "team", "vlan", "vxlan", "wlan"})
"""Values of DEVTYPE in `uevent` that are told apart."""

_HEX = re.compile(r"0x[0-9a-f]{1,16}")


@dataclass(frozen=True, slots=True)
class Interface:
    """One interface.

    `kind` is physical, loopback, one of DEVICE_TYPES, or virtual for any other without a device behind it. `driver` is
    empty where it has none. `up` tells whether it is up with carrier, None where that cannot be read. `answers` are
    the files that were read, by path.
    """

    name: str
    kind: str
    driver: str
    up: bool | None
    addresses: tuple[str, ...] = ()
    answers: Mapping[str, bytes | OSError] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """Its folder in sysfs."""
        return f"{FOLDER}/{self.name}"

    @property
    def address(self) -> str:
        """The address that others would use: IPv4 before IPv6, link-local ones last; empty where it has none."""

        def rank(address: str) -> int:
            return 2 * address.lower().startswith(("fe80:", "169.254.")) + (":" in address)

        return min(self.addresses, key=rank, default="").partition("/")[0]

    def word(self, file: str) -> str:
        """The text of one of its files, empty where it cannot be read."""
        answer = self.answers.get(f"{self.folder}/{file}")
        return decode(answer) if isinstance(answer, bytes) else ""


def read_interfaces(node: Node) -> list[Interface]:
    """All interfaces of the node's network namespace. Raises OSError where they cannot be listed."""
    try:
        addresses = node.addresses()
    except OSError:
        addresses = {}
    found = []
    for name in node.entries(FOLDER):
        try:
            node.link(f"{FOLDER}/{name}")
        except OSError:
            continue  # a file of a driver (bonding_masters), no interface
        found.append(_read_interface(node, name, tuple(addresses.get(name, ()))))
    return found


def _read_interface(node: Node, name: str, addresses: tuple[str, ...]) -> Interface:
    folder = f"{FOLDER}/{name}"
    paths = [*(f"{folder}/{file}" for file in FILES), *(f"{folder}/statistics/{file}" for file in STATISTICS)]
    interface = Interface(name, "", "", None, addresses, node.read_all(paths))
    flags = _flags(interface.word("flags"))
    if interface.word("type") == ARPHRD_LOOPBACK or (flags or 0) & IFF_LOOPBACK:
        kind = "loopback"
    elif node.exists(f"{folder}/device"):
        kind = "physical"
    else:
        kind = _device_type(node, folder)
    return Interface(name, kind, _driver(node, folder), _up(interface, flags), addresses, interface.answers)


def _flags(text: str) -> int | None:
    return int(text, 16) if _HEX.fullmatch(text) else None


def _up(interface: Interface, flags: int | None) -> bool | None:
    """Administratively up, and with carrier. While it is down, `carrier` gives EINVAL."""
    carrier, state = interface.word("carrier"), interface.word("operstate")
    if (
        (flags is not None and not flags & IFF_UP)
        or carrier == "0"
        or state in ("down", "lowerlayerdown", "notpresent")
    ):
        return False
    if carrier == "1" or state == "up":
        return True
    return None


def _driver(node: Node, folder: str) -> str:
    try:
        return printable(node.link(f"{folder}/device/driver").rpartition("/")[2])
    except OSError:
        return ""


def _device_type(node: Node, folder: str) -> str:
    try:
        lines = node.text(f"{folder}/uevent").splitlines()
    except OSError:
        return "virtual"
    kinds = [line.partition("=")[2] for line in lines if line.startswith("DEVTYPE=")]
    return kinds[0] if kinds and kinds[0] in DEVICE_TYPES else "virtual"
