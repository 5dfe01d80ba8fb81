"""What lines of the kernel log mean: text to facts, without knowing the host.

The forms are those of the NVIDIA driver (kernel-open/nvidia of open-gpu-kernel-modules prints `NVRM:`), mm/oom_kill.c,
drivers/net/bonding, the common network drivers, and drivers/net/ethernet/mellanox/mlx5/core (health.c, port.c, events.c).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from aidiag.collectors.observation import FieldValue
from aidiag.collectors.pci import pci_address

DETAIL_LIMIT = 512
PCI = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}"
INTERFACE = r"[A-Za-z0-9_.@-]{1,32}"


@dataclass(frozen=True, slots=True)
class KernelFact:
    """Something that a line says. `device` is what it says it of, in the kernel's own name: a PCI address or interface."""

    kind: str
    device: tuple[Literal["gpu", "nic", "host"], str] = ("host", "")
    fields: Mapping[str, FieldValue] = field(default_factory=dict)


def _xid(match: re.Match[str]) -> KernelFact:
    address = pci_address(match["pci"])
    detail = (match["detail"] or "")[:DETAIL_LIMIT]
    fields: dict[str, FieldValue] = {"xid": int(match["xid"]), "pci_bus_id": address, "detail": detail}
    pid = re.match(r"pid='?(\d{1,10})\b", detail)
    name = re.search(r"\bname=([^,]{1,64})", detail)
    if pid:
        fields["pid"] = int(pid[1])
    if name and "unknown" not in name[1]:
        fields["process"] = name[1]
    return KernelFact("xid", ("gpu", address), fields)


def _off_bus(match: re.Match[str]) -> KernelFact:
    address = pci_address(match["pci"])
    return KernelFact("gpu_off_bus", ("gpu", address), {"pci_bus_id": address, "detail": match["detail"]})


def _sxid(match: re.Match[str]) -> KernelFact:
    fields: dict[str, FieldValue] = {
        "sxid": int(match["sxid"]), "switch": match["switch"], "pci_bus_id": pci_address(match["pci"]),
        "detail": (match["detail"] or "")[:DETAIL_LIMIT],
    }  # fmt: skip
    return KernelFact("sxid", fields=fields)


def _killed(match: re.Match[str]) -> KernelFact:
    fields: dict[str, FieldValue] = {"pid": int(match["pid"]), "process": match["name"]}
    if "Memory cgroup" in match[0][: match.start("pid")]:
        fields["limit_of"] = "cgroup"
    sizes = re.findall(r"\b(?:anon|file|shmem)-rss:(\d{1,15})kB", match["rest"])
    if sizes:
        fields["resident_bytes"] = 1024 * sum(map(int, sizes))
    return KernelFact("host_oom_kill", fields=fields)


def _link(match: re.Match[str]) -> KernelFact:
    device = match["interface"] or match["pci"]
    kind = "nic_link_up" if match["state"].lower() == "up" else "nic_link_down"
    return KernelFact(kind, ("nic", device), {"detail": match[0][:DETAIL_LIMIT]})


def _stuck(match: re.Match[str]) -> KernelFact:
    fields = {"problem": "transmit_timeout", "detail": match[0][:DETAIL_LIMIT]}
    return KernelFact("nic_trouble", ("nic", match["interface"]), fields)


MLX5_PROBLEMS = (
    ("port_module_error", re.compile(r"Port module event\[error\]: module \d+, ")),
    ("health_compromised", re.compile(r"device's health compromised")),
    (
        "firmware_error",
        re.compile(r"firmware internal error|Health issue observed|assert_var\[0\]|FW fatal|Fatal error \d"),
    ),
    ("command_timeout", re.compile(r"[A-Z_]{3,40}\(0x[0-9a-f]+\) timeout\. Will cause a leak")),
    ("insufficient_power", re.compile(r"Detected insufficient power")),
    ("high_temperature", re.compile(r"High temperature on sensors")),
    ("transmit_timeout", re.compile(r"TX timeout")),
)
"""Words for the troubles that mlx5_core reports. Refused commands (mlx5_cmd_out_err) are left out: querying tools cause
them on healthy cards."""


def _mlx5(match: re.Match[str]) -> KernelFact | None:
    for problem, pattern in MLX5_PROBLEMS:
        if pattern.search(match["rest"]):
            fields: dict[str, FieldValue] = {"problem": problem, "detail": match["rest"][:DETAIL_LIMIT]}
            return KernelFact("nic_trouble", ("nic", match["interface"] or match["pci"]), fields)
    return None


@dataclass(frozen=True, slots=True)
class _Form:
    """A form of line: a literal that it holds (a quick test), the pattern of the whole line, and what it says."""

    literal: str
    pattern: re.Pattern[str]
    fact: Callable[[re.Match[str]], KernelFact | None]


def _form(literal: str, pattern: str, fact: Callable[[re.Match[str]], KernelFact | None]) -> _Form:
    return _Form(literal, re.compile(pattern, re.IGNORECASE), fact)


_FORMS = (
    # NVRM: Xid (PCI:0000:c3:00): 79, pid=28411, name=python3, GPU has fallen off the bus.
    _form(
        "Xid", rf"NVRM: Xid \((?:PCI:)?(?P<pci>{PCI})[^)]{{0,40}}\): (?P<xid>\d{{1,4}})(?:,\s*(?P<detail>.*))?", _xid
    ),
    # NVRM: GPU 0000:c3:00.0: GPU has fallen off the bus.
    _form("off the bus", rf"NVRM: GPU (?:at )?(?P<pci>(?:PCI:)?{PCI}(?:\.\d)?): (?P<detail>GPU has .*)", _off_bus),
    # nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error
    _form(
        "SXid",
        rf"(?P<switch>nvidia-nvswitch\d{{1,3}}): SXid \((?:PCI:)?(?P<pci>{PCI}(?:\.\d)?)\): (?P<sxid>\d{{1,6}})"
        r"(?:,\s*(?P<detail>.*))?",
        _sxid,
    ),
    # Memory cgroup out of memory: Killed process 4711 (python3) total-vm:9kB, anon-rss:8kB, file-rss:1kB, ...
    _form(
        "Killed process",
        r"(?:[^:]{1,80}: )?Killed process (?P<pid>\d{1,10})(?:, UID \d{1,10},)? \((?P<name>.{0,64}?)\),?"
        r"(?P<rest> (?:total-vm:|vsz:|UID[: ]).*|)",
        _killed,
    ),
    # Memory cgroup out of memory: Kill process 4711 (python3) score 271 or sacrifice child (before Linux 5.0)
    _form(
        "Kill process",
        r"(?:[^:]{1,80}: )?Kill process (?P<pid>\d{1,10}) \((?P<name>.{0,64}?)\)(?P<rest> score .*)",
        _killed,
    ),
    # mlx5_core 0000:1a:00.0 ens1f0: Link down | igb 0000:01:00.0 eno1: igb: eno1 NIC Link is Up 1000 Mbps
    _form(
        "ink ",
        rf"[\w-]{{1,32}} (?P<pci>{PCI}\.\d)(?: (?P<interface>{INTERFACE}))?: (?:\w{{1,32}}: {INTERFACE} )?"
        r"(?:NIC )?Link (?:is )?(?P<state>up|down)\b.*",
        _link,
    ),
    # bond0: (slave ens1f0): link status definitely down, disabling slave
    _form(
        "link status",
        rf"{INTERFACE}: \(slave (?P<interface>{INTERFACE})\): link status definitely (?P<state>up|down).*",
        _link,
    ),
    # NETDEV WATCHDOG: ens1f0 (mlx5_core): transmit queue 3 timed out 5016 ms
    _form(
        "WATCHDOG",
        rf"NETDEV WATCHDOG: (?:CPU: \d+: )?(?P<interface>{INTERFACE}) \([^)]*\): transmit queue \d+ timed out.*",
        _stuck,
    ),
    # mlx5_core 0000:1a:00.0: Port module event[error]: module 0, Cable error, Bad or shorted cable/module
    _form("mlx5_core", rf"mlx5_core (?P<pci>{PCI}\.\d)(?: (?P<interface>{INTERFACE}))?: (?P<rest>.*)", _mlx5),
)

# oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a,task_memcg=/a/b,task=python,
# pid=4711,uid=0
_OOM_KILL = re.compile(
    r"oom-kill:constraint=(?P<constraint>\w{1,40}),.{0,2048}?,task_memcg=(?P<cgroup>.{1,512}?),task=.{0,64},"
    r"pid=(?P<pid>\d{1,10}),uid=\d+"
)


class KernelLines:
    """Turns lines into facts. The OOM killer says the cgroup one line before the kill: that line is kept for a while.

    `told_by` is where the lines come from: "kernel" or "log".
    """

    def __init__(self, told_by: str = "kernel") -> None:
        self._told_by = told_by
        self._kills: dict[int, tuple[str, str]] = {}

    def fact(self, text: str) -> KernelFact | None:
        """What a line says, None where it says nothing that we look for."""
        if text.startswith("oom-kill:"):
            told = _OOM_KILL.fullmatch(text)
            if told:
                self._kills[int(told["pid"])] = (told["cgroup"], told["constraint"])
                self._kills = dict(list(self._kills.items())[-64:])
            return None
        for form in _FORMS:
            if form.literal in text:
                match = form.pattern.fullmatch(text)
                fact = form.fact(match) if match else None
                if fact:
                    return self._of_kill(fact) if fact.kind == "host_oom_kill" else fact
        return None

    def _of_kill(self, fact: KernelFact) -> KernelFact:
        fields = {**fact.fields, "told_by": self._told_by}
        pid = fields["pid"]
        if isinstance(pid, int) and pid in self._kills:
            fields["cgroup"], constraint = self._kills.pop(pid)
            fields["limit_of"] = {"CONSTRAINT_MEMCG": "cgroup", "CONSTRAINT_NONE": "host"}.get(constraint, "other")
        return KernelFact(fact.kind, fact.device, fields)
