"""RDMA ports as sysfs shows them: state, rate, MTU, counters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from aidiag.collectors.collector import Context
from aidiag.collectors.observation import Observation
from aidiag.collectors.signal import EventKind, Signal

SIGNALS: tuple[Signal, ...] = (
    Signal(
        "rdma_port_info",
        "info",
        "",
        "port",
        "What a port is",
        labels=("netdev", "link_layer", "board_id", "firmware_version"),
    ),
    Signal("rdma_port_up", "gauge", "count", "port", "1 while the port is ACTIVE and its link is up"),
    Signal("rdma_port_state", "text", "", "port", "DOWN, INIT, ARMED, ACTIVE or ACTIVE_DEFER"),
    Signal(
        "rdma_port_phys_state",
        "text",
        "",
        "port",
        "Sleep, Polling, Disabled, PortConfigurationTraining, LinkUp, LinkErrorRecovery or Phy Test",
    ),
    Signal("rdma_port_speed_bytes_per_second", "gauge", "bytes_per_second", "port", "Rate of the port"),
    Signal("rdma_port_mtu_bytes", "gauge", "bytes", "port", "MTU in force"),
    Signal("rdma_port_max_mtu_bytes", "gauge", "bytes", "port", "Largest MTU that the port can do"),
    Signal(
        "rdma_port_used_by_job",
        "gauge",
        "count",
        "port",
        "1 when the job's settings include the port, 0 when they exclude it",
    ),
)

EVENTS: tuple[EventKind, ...] = ()


class RdmaCollector:
    """RDMA ports as sysfs shows them: state, rate, MTU, counters."""

    name: ClassVar[str] = "rdma"
    interval_seconds: ClassVar[float] = 5.0
    signals: ClassVar[tuple[Signal, ...]] = SIGNALS
    events: ClassVar[tuple[EventKind, ...]] = EVENTS

    def __init__(self, context: Context) -> None:
        self._context = context

    def collect(self) -> Iterable[Observation]:
        """Read the source once."""
        return ()
