"""Which interfaces and RDMA devices a setting names, by the rules of the library that reads it.

NCCL (src/misc/socket.cc, src/os/linux.cc, src/transport/net_ib/init.cc, parseStringList and matchIfList in
src/misc/utils.cc): a list of prefixes, `=` before the list for exact names, `^` before it to exclude, `^=` for both;
an entry may have a port behind a colon. Gloo takes a list of exact names. UCX takes exact names, `device:port` for
RDMA, shell patterns, `all`, and `^` before the list to exclude.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass

ANY_PORT = -1


@dataclass(frozen=True, slots=True)
class DeviceFilter:
    """A setting, parsed. `entries` are (name, port); ANY_PORT stands for all ports."""

    entries: tuple[tuple[str, int], ...]
    exclude: bool = False
    how: str = "prefix"

    def includes(self, name: str, port: int = ANY_PORT) -> bool:
        """Whether a device is taken. Without entries every device matches the list, as in NCCL."""
        matched = not self.entries or any(self._matches(entry, name, port) for entry in self.entries)
        return matched != self.exclude

    def names(self, name: str, port: int = ANY_PORT) -> bool:
        """Whether an entry is about a device, be it to take or to leave it."""
        return any(self._matches(entry, name, port) for entry in self.entries)

    def _matches(self, entry: tuple[str, int], name: str, port: int) -> bool:
        pattern, wanted = entry
        if ANY_PORT not in (wanted, port) and wanted != port:
            return False
        if self.how == "exact":
            return name == pattern
        if self.how == "pattern":
            return pattern == "all" or fnmatch.fnmatchcase(name, pattern)
        return name.startswith(pattern)


def parse_nccl(value: str) -> DeviceFilter:
    """NCCL_SOCKET_IFNAME and NCCL_IB_HCA."""
    exclude = value.startswith("^")
    value = value[1:] if exclude else value
    exact = value.startswith("=")
    value = value[1:] if exact else value
    return DeviceFilter(_entries(value), exclude, "exact" if exact else "prefix")


def parse_gloo(value: str) -> DeviceFilter:
    """GLOO_SOCKET_IFNAME, TP_SOCKET_IFNAME, HOROVOD_GLOO_IFACE."""
    return DeviceFilter(tuple((name, ANY_PORT) for name in value.split(",") if name), how="exact")


def parse_ucx(value: str) -> DeviceFilter:
    """UCX_NET_DEVICES."""
    exclude = value.startswith("^")
    return DeviceFilter(_entries(value[1:] if exclude else value), exclude, "pattern")


def _entries(value: str) -> tuple[tuple[str, int], ...]:
    """`name[:port[:rail[:plane]]]` between commas; an entry without a name is skipped."""
    entries = []
    for entry in value.split(","):
        name, _, rest = entry.partition(":")
        if name:
            entries.append((name, _atoi(rest.partition(":")[0])))
    return tuple(entries)


def _atoi(text: str) -> int:
    """As atoi(3): the leading digits, 0 where there are none; no port at all is ANY_PORT."""
    if not text:
        return ANY_PORT
    digits = len(text) - len(text.lstrip("0123456789"))
    return int(text[: min(digits, 9)]) if digits else 0
