"""RDMA devices and their ports as sysfs shows them (Documentation/ABI/stable/sysfs-class-infiniband)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aidiag.collectors.node import Node, decode

FOLDER = "/sys/class/infiniband"
STATES = ("NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER")
"""enum ib_port_state; the file says `4: ACTIVE`."""
PHYS_STATES = (
    "", "Sleep", "Polling", "Disabled", "PortConfigurationTraining", "LinkUp", "LinkErrorRecovery", "Phy Test",
)  # fmt: skip
"""IB PortPhysicalState; the file says `5: LinkUp`."""
PORT_FILES = ("state", "phys_state", "rate", "link_layer", "lid", "sm_lid")
DEVICE_FILES = ("board_id", "fw_ver", "hca_type", "node_guid")
GIDS_LIMIT = 256
EMPTY_GID = "0000:0000:0000:0000:0000:0000:0000:0000"

_LID = re.compile(r"0x[0-9a-f]{1,8}")
_RATE = re.compile(r"(\d+(?:\.\d+)?) Gb/sec(?: \((\d+)X )?")


@dataclass(frozen=True, slots=True)
class Gid:
    """An entry of the GID table: `kind` is `IB/RoCE v1` or `RoCE v2`, `netdev` its interface, each empty if unknown."""

    index: int
    value: str
    kind: str
    netdev: str


@dataclass(frozen=True, slots=True)
class RdmaPort:
    """One port. `answers` are the files of the port and its device by path; `virtual` tells a virtual function."""

    device: str
    number: int
    virtual: bool
    counters: tuple[str, ...]
    hw_counters: tuple[str, ...]
    answers: Mapping[str, bytes | OSError]

    @property
    def folder(self) -> str:
        """Its folder in sysfs."""
        return f"{FOLDER}/{self.device}/ports/{self.number}"

    def word(self, file: str) -> str:
        """The text of one of the port's files, empty where it cannot be read."""
        return _word(self.answers, f"{self.folder}/{file}")

    def device_word(self, file: str) -> str:
        """The text of one of the device's files, empty where it cannot be read."""
        return _word(self.answers, f"{FOLDER}/{self.device}/{file}")


def read_ports(node: Node, device: str) -> list[RdmaPort]:
    """The ports of a device with all their files, read in one go. Raises OSError, and HungError where a read of the
    device does not return.
    """
    folder = f"{FOLDER}/{device}"
    numbers = sorted(int(name) for name in node.entries(f"{folder}/ports") if name.isdecimal() and len(name) < 4)
    names: dict[int, tuple[tuple[str, ...], tuple[str, ...]]] = {}
    paths = [f"{folder}/{file}" for file in DEVICE_FILES]
    for number in numbers:
        port = f"{folder}/ports/{number}"
        names[number] = (_entries(node, f"{port}/counters"), _entries(node, f"{port}/hw_counters"))
        paths += [f"{port}/{file}" for file in PORT_FILES]
        paths += [f"{port}/counters/{file}" for file in names[number][0]]
        paths += [f"{port}/hw_counters/{file}" for file in names[number][1]]
    answers = node.read_all(paths)
    virtual = node.exists(f"{folder}/device/physfn")
    return [RdmaPort(device, number, virtual, *names[number], answers) for number in numbers]


def read_gids(node: Node, device: str, number: int) -> list[Gid]:
    """The entries in use of a port's GID table. Raises as `read_ports` does."""
    folder = f"{FOLDER}/{device}/ports/{number}"
    indexes = sorted(int(name) for name in node.entries(f"{folder}/gids") if name.isdecimal() and len(name) < 5)
    values = node.read_all(f"{folder}/gids/{index}" for index in indexes[:GIDS_LIMIT])
    used = [
        (index, value)
        for index in indexes[:GIDS_LIMIT]
        if (value := _word(values, f"{folder}/gids/{index}")) and value != EMPTY_GID
    ]
    paths = [f"{folder}/gid_attrs/{what}/{index}" for what in ("types", "ndevs") for index, _ in used]
    facts = node.read_all(paths)  # both give EINVAL where the kernel knows no type or no interface
    return [
        Gid(
            index,
            value,
            _word(facts, f"{folder}/gid_attrs/types/{index}"),
            _word(facts, f"{folder}/gid_attrs/ndevs/{index}"),
        )
        for index, value in used
    ]


def netdev_of(node: Node, device: str, number: int, gids: Sequence[Gid]) -> str:
    """The interface of a port: the one of its GIDs (RoCE), else the one of the same card whose `dev_port` fits (IPoIB);
    empty where there is none.
    """
    for gid in gids:
        if gid.netdev:
            return gid.netdev
    folder = f"{FOLDER}/{device}/device/net"
    names = _entries(node, folder)
    ports = node.read_all(f"{folder}/{name}/dev_port" for name in names)
    for name in names:
        if (_word(ports, f"{folder}/{name}/dev_port") or "0") == str(number - 1):
            return name
    return ""


def parse_state(text: str, words: Sequence[str]) -> str | None:
    """The word for `4: ACTIVE` by its number, None where it has none."""
    number = text.partition(":")[0].strip()
    index = int(number) if number.isdecimal() and len(number) < 3 else 0
    return words[index] if 0 < index < len(words) else None


def parse_rate(text: str) -> tuple[float, int | None] | None:
    """(bytes per second, lanes) of `400 Gb/sec (4X NDR)`; None where it is no rate."""
    match = _RATE.match(text)
    if not match:
        return None
    return float(match[1]) * 1e9 / 8, int(match[2]) if match[2] else None


def parse_lid(text: str) -> int | None:
    """The number in `0x21`."""
    return int(text, 16) if _LID.fullmatch(text) else None


def _entries(node: Node, folder: str) -> tuple[str, ...]:
    try:
        return tuple(node.entries(folder))
    except OSError:
        return ()


def _word(answers: Mapping[str, bytes | OSError], path: str) -> str:
    answer = answers.get(path)
    return decode(answer) if isinstance(answer, bytes) else ""
