"""GPUs through NVML, asked in a helper process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from aidiag.collectors.collector import Context
from aidiag.collectors.observation import Observation
from aidiag.collectors.signal import EventKind, Signal

SIGNALS: tuple[Signal, ...] = (
    Signal("gpu_info", "info", "", "gpu", "What a GPU is", labels=("gpu_uuid", "pci_bus_id", "model")),
    Signal("gpu_memory_total_bytes", "gauge", "bytes", "gpu", "Memory of the GPU"),
    Signal("gpu_memory_used_bytes", "gauge", "bytes", "gpu", "Memory in use by all processes"),
    Signal("gpu_memory_foreign_bytes", "gauge", "bytes", "gpu", "Memory held by processes that are not of the job"),
    Signal("gpu_utilization_ratio", "gauge", "ratio", "gpu", "Share of time in which a kernel ran"),
    Signal("gpu_power_watts", "gauge", "watts", "gpu", "Power drawn"),
    Signal("gpu_power_limit_watts", "gauge", "watts", "gpu", "Power limit in force"),
    Signal("gpu_temperature_celsius", "gauge", "celsius", "gpu", "Core temperature"),
    Signal("gpu_sm_clock_hertz", "gauge", "hertz", "gpu", "Clock of the multiprocessors"),
    Signal(
        "gpu_throttle_active", "gauge", "count", "gpu", "1 while a reason holds the clocks down", labels=("reason",)
    ),
    Signal(
        "gpu_ecc_uncorrected_errors_total",
        "counter",
        "count",
        "gpu",
        "Uncorrected ECC errors since the driver was loaded",
    ),
    Signal(
        "gpu_call_pending_seconds",
        "gauge",
        "seconds",
        "host",
        "How long an NVML call has not returned, 0 when none is pending",
    ),
)

EVENTS: tuple[EventKind, ...] = (
    EventKind("xid", "gpu", "The driver reported an Xid", ("xid", "pci_bus_id", "detail")),
)


class GpuCollector:
    """GPUs through NVML, asked in a helper process."""

    name: ClassVar[str] = "gpu"
    interval_seconds: ClassVar[float] = 10.0
    signals: ClassVar[tuple[Signal, ...]] = SIGNALS
    events: ClassVar[tuple[EventKind, ...]] = EVENTS

    def __init__(self, context: Context) -> None:
        self._context = context

    def collect(self) -> Iterable[Observation]:
        """Read the source once."""
        return ()
