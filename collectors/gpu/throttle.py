"""Why a GPU runs at the clocks it runs at: the bits of nvmlDeviceGetCurrentClocksEventReasons (nvml.h)."""

from __future__ import annotations

REASONS = {
    "idle": 0x1,
    "application_clocks": 0x2,
    "power_cap": 0x4,
    "hardware_slowdown": 0x8,
    "sync_boost": 0x10,
    "software_thermal": 0x20,
    "hardware_thermal": 0x40,
    "power_brake": 0x80,
    "display_clocks": 0x100,
}
"""Our words for the bits. nvml.h names them GpuIdle, ApplicationsClocksSetting, SwPowerCap, HwSlowdown, SyncBoost,
SwThermalSlowdown, HwThermalSlowdown, HwPowerBrakeSlowdown and DisplayClockSetting."""

SLOWDOWNS = ("hardware_slowdown", "software_thermal", "hardware_thermal", "power_brake")
"""The reasons that take away speed which the GPU should have. An idle GPU, clocks that somebody has set and the power
limit under full load are normal; sync_boost only passes on what holds another GPU of a group."""


def active(bits: int) -> dict[str, bool]:
    """Every reason, and whether its bit is set. Bits that nvml.h does not name are left out."""
    return {reason: bool(bits & bit) for reason, bit in REASONS.items()}


def slowed_down(bits: int) -> bool:
    """Whether one of the slowdowns is active."""
    return any(bits & REASONS[reason] for reason in SLOWDOWNS)
