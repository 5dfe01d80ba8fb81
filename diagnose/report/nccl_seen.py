"""Gathers from the events of logs how NCCL was configured in each process."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from aidiag.collectors.observation import Event
from aidiag.diagnose.report.nccl_view import NcclLink, NcclProcess, NcclView, view

PROCESSES_KEPT = 1024
LINKS_KEPT = 64
SETTINGS_KEPT = 64
"""More than a start-up has; what comes on top is left out, so that memory stays bounded."""

_PORT = re.compile(r"<\d+>$")
_DEVICE = re.compile(r"\[\d{1,3}\]=?(?:\{[^}]{0,500}\}|[^\s\[]{1,200})")


@dataclass(slots=True)
class _Seen:
    """What one process has said so far."""

    host: str
    pid: int | None
    rank: int | None = None
    version: str = ""
    cuda_version: str = ""
    network: str = ""
    interface: str = ""
    address: str = ""
    nics: dict[str, tuple[str, ...]] = field(default_factory=dict)
    channels: int | None = None
    links: dict[tuple[int, str], NcclLink] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)


class NcclSeen:
    """Takes events one by one; `view` tells what they say together."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int | None, int | None], _Seen] = {}
        self._takers: dict[str, Callable[[_Seen, Event], None]] = {
            "nccl_version": _version,
            "nccl_setting": _setting,
            "nccl_bootstrap_interface": _interface,
            "nccl_network_devices": _devices,
            "nccl_network_chosen": _network,
            "nccl_channel": _link,
            "nccl_channel_counts": _channels,
            "nccl_init_started": _nothing,
            "nccl_init_completed": _nothing,
        }

    def add(self, event: Event) -> None:
        """Take an event; of those that say nothing of NCCL's configuration nothing is kept."""
        take = self._takers.get(event.kind)
        if take is None:
            return
        pid, rank = event.fields.get("pid"), event.subject.rank if event.subject is not None else None
        host = str(event.fields.get("host") or (event.subject.host if event.subject is not None else ""))
        known = pid if isinstance(pid, int) else None
        key = (host, known, None) if known is not None else (host, None, rank)
        seen = self._seen.get(key)
        if seen is None:
            if len(self._seen) >= PROCESSES_KEPT:
                return
            seen = self._seen[key] = _Seen(host, known)
        if rank is not None:
            seen.rank = rank
        take(seen, event)

    def view(self) -> NcclView | None:
        """The view of all processes that said something; one that nothing tells apart is left out beside others."""
        told = [_process(seen) for seen in self._seen.values()]
        named = [process for process in told if process.host or process.pid is not None or process.rank is not None]
        return view(named or told)


def _process(seen: _Seen) -> NcclProcess:
    used = seen.nics.get(seen.network) or next(iter(seen.nics.values()), ())
    return NcclProcess(
        host=seen.host,
        pid=seen.pid,
        rank=seen.rank,
        version=seen.version,
        cuda_version=seen.cuda_version,
        network=seen.network,
        interface=seen.interface,
        address=seen.address,
        nics=used,
        gpudirect=_gpudirect(seen),
        channels=seen.channels,
        links=tuple(seen.links.values()),
        settings=dict(sorted(seen.settings.items())),
    )


def _gpudirect(seen: _Seen) -> str:
    """By the ways over a network that can do it."""
    able = [link.transport for link in seen.links.values() if link.transport.startswith("NET/")]
    able = [transport for transport in able if not transport.startswith("NET/Socket")]
    direct = sum("GDRDMA" in transport for transport in able)
    return "" if not able else "on" if direct == len(able) else "off" if not direct else "partly"


def _version(seen: _Seen, event: Event) -> None:
    seen.version = str(event.fields.get("version", ""))
    cuda = event.fields.get("cuda_version")
    seen.cuda_version = "" if cuda is None else str(cuda)


def _setting(seen: _Seen, event: Event) -> None:
    if len(seen.settings) < SETTINGS_KEPT and event.fields.get("accepted") != "no":
        seen.settings[str(event.fields.get("name", ""))] = str(event.fields.get("value", ""))


def _interface(seen: _Seen, event: Event) -> None:
    if not seen.interface:
        seen.interface = str(event.fields.get("interface", ""))
        seen.address = _PORT.sub("", str(event.fields.get("address", "")).split()[0])


def _devices(seen: _Seen, event: Event) -> None:
    devices = tuple(_DEVICE.findall(str(event.fields.get("devices", ""))))
    if devices:
        seen.nics[str(event.fields.get("network", ""))] = tuple(_PORT.sub("", device) for device in devices)


def _network(seen: _Seen, event: Event) -> None:
    seen.network = str(event.fields.get("network", ""))


def _link(seen: _Seen, event: Event) -> None:
    peer, transport = event.fields.get("comm_peer"), str(event.fields.get("transport", ""))
    if isinstance(peer, int) and transport and len(seen.links) < LINKS_KEPT:
        seen.links.setdefault((peer, transport), NcclLink(peer, transport))


def _channels(seen: _Seen, event: Event) -> None:
    count = event.fields.get("collective")
    if isinstance(count, int):
        seen.channels = max(seen.channels or 0, count)


def _nothing(seen: _Seen, event: Event) -> None:
    """Only whose process it is counts."""
