"""Network interfaces: state, MTU, speed, errors, and which of them the job uses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from aidiag.collectors.collector import Context
from aidiag.collectors.observation import Observation
from aidiag.collectors.signal import EventKind, Signal

SIGNALS: tuple[Signal, ...] = (
    Signal("net_info", "info", "", "nic", "What an interface is", labels=("driver", "kind", "address")),
    Signal("net_up", "gauge", "count", "nic", "1 while the interface is up with carrier"),
    Signal("net_mtu_bytes", "gauge", "bytes", "nic", "MTU of the interface"),
    Signal("net_speed_bytes_per_second", "gauge", "bytes_per_second", "nic", "Link speed"),
    Signal("net_receive_bytes_total", "counter", "bytes", "nic", "Bytes received"),
    Signal("net_transmit_bytes_total", "counter", "bytes", "nic", "Bytes sent"),
    Signal("net_receive_errors_total", "counter", "count", "nic", "Receive errors"),
    Signal("net_transmit_errors_total", "counter", "count", "nic", "Transmit errors"),
    Signal("net_receive_dropped_total", "counter", "count", "nic", "Packets dropped on receive"),
    Signal("net_transmit_dropped_total", "counter", "count", "nic", "Packets dropped on send"),
    Signal("net_carrier_changes_total", "counter", "count", "nic", "Times that the carrier came or went"),
    Signal(
        "net_used_by_job",
        "gauge",
        "count",
        "nic",
        "1 when ranks talk to other hosts over it, or their settings name it",
    ),
    Signal(
        "net_chosen_interface_missing",
        "gauge",
        "count",
        "host",
        "1 when a setting names an interface that is not there, 0 when all are",
        labels=("variable",),
    ),
)

EVENTS: tuple[EventKind, ...] = ()


class NetworkCollector:
    """Network interfaces: state, MTU, speed, errors, and which of them the job uses."""

    name: ClassVar[str] = "network"
    interval_seconds: ClassVar[float] = 5.0
    signals: ClassVar[tuple[Signal, ...]] = SIGNALS
    events: ClassVar[tuple[EventKind, ...]] = EVENTS

    def __init__(self, context: Context) -> None:
        self._context = context

    def collect(self) -> Iterable[Observation]:
        """Read the source once."""
        return ()
