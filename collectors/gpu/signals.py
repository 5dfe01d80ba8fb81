"""What the GPU collector measures."""

from __future__ import annotations

from aidiag.collectors.gpu.xids import XID
from aidiag.collectors.signal import EventKind, Signal, SignalType, Unit
from aidiag.collectors.subject import SubjectKind

AGE_SECONDS = 75.0
"""Readings may be this old: they come every 10 s, and every 30 s where NVML is slow."""


def _signal(
    name: str,
    unit: Unit,
    text: str,
    *,
    kind: SignalType = "gauge",
    scope: SubjectKind = "gpu",
    labels: tuple[str, ...] = (),
) -> Signal:
    return Signal(name, kind, unit, scope, text, labels, max_age_seconds=AGE_SECONDS)


SIGNALS: tuple[Signal, ...] = (
    _signal("gpu_info", "", "What a GPU is", kind="info", labels=("gpu_uuid", "pci_bus_id", "model")),
    _signal("gpu_present", "count", "1 while the GPU can be used, 0 where the driver has lost it"),
    _signal("gpu_memory_total_bytes", "bytes", "Memory of the GPU"),
    _signal("gpu_memory_used_bytes", "bytes", "Memory in use by all processes"),
    _signal("gpu_memory_reserved_bytes", "bytes", "Memory that the driver keeps; old drivers count it as used"),
    _signal("gpu_memory_foreign_bytes", "bytes", "Memory held by processes that are not of the job"),
    _signal(
        "gpu_memory_foreign_at_most_bytes",
        "bytes",
        "Memory in use where its holders cannot be seen: others hold no more than that",
    ),
    _signal("gpu_processes", "count", "Processes on the GPU, of the job or foreign", labels=("owner",)),
    _signal("gpu_utilization_ratio", "ratio", "Share of time in which a kernel ran"),
    _signal("gpu_power_watts", "watts", "Power drawn"),
    _signal("gpu_power_limit_watts", "watts", "Power limit in force"),
    _signal("gpu_temperature_celsius", "celsius", "Core temperature"),
    _signal(
        "gpu_temperature_margin_celsius", "celsius", "How far the core is below the temperature that slows it down"
    ),
    _signal("gpu_sm_clock_hertz", "hertz", "Clock of the multiprocessors"),
    _signal("gpu_sm_clock_limit_hertz", "hertz", "Highest clock of the multiprocessors"),
    _signal("gpu_throttle_active", "count", "1 while a reason holds the clocks down", labels=("reason",)),
    _signal("gpu_slowdown_active", "count", "1 while heat or missing power holds the clocks down"),
    _signal(
        "gpu_ecc_corrected_errors_total", "count", "Corrected ECC errors since the driver was loaded", kind="counter"
    ),
    _signal(
        "gpu_ecc_uncorrected_errors_total",
        "count",
        "Uncorrected ECC errors since the driver was loaded",
        kind="counter",
    ),
    _signal("gpu_row_remap_pending", "count", "1 while a bad row of memory waits for a reset to be replaced"),
    _signal("gpu_row_remap_failed", "count", "1 where a bad row of memory could not be replaced"),
    _signal("gpu_pending_call", "", "The NVML call about this GPU that has not returned", kind="text"),
    _signal(
        "gpu_call_pending_seconds",
        "seconds",
        "How long an NVML call has not returned, 0 when none is pending",
        scope="host",
    ),
    _signal(
        "gpu_call_duration_seconds",
        "seconds",
        "How long the slowest NVML call of the last reading took, 0 where all were quick",
        scope="host",
    ),
)

EVENTS: tuple[EventKind, ...] = (
    XID,
    EventKind("gpu_driver_changed", "host", "Another version of the NVIDIA driver was loaded", ("old", "new")),
)
