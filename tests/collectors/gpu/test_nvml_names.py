"""The names of calls in nvml.json against pynvml itself."""

from __future__ import annotations

import ctypes
from typing import Any

import pynvml
import pytest

from aidiag.collectors.gpu import throttle
from aidiag.collectors.gpu.nvml import IDENTITY, SYSTEM, WATCHED
from aidiag.collectors.gpu.nvml_names import VERSIONS, arguments_of, function_of, plain

ARGUMENTS = [
    ("nvmlDeviceGetClockInfo(SM)", [1]),
    ("nvmlDeviceGetClockInfo(MEM)", [2]),
    ("nvmlDeviceGetTemperature(GPU)", [0]),
    ("nvmlDeviceGetTemperatureThreshold(SLOWDOWN)", [1]),
    ("nvmlDeviceGetTotalEccErrors(UNCORRECTED,VOLATILE)", [1, 0]),
    ("nvmlDeviceGetTotalEccErrors(CORRECTED,AGGREGATE)", [0, 1]),
    ("nvmlDeviceGetMemoryErrorCounter(CORRECTED,VOLATILE,DRAM)", [0, 0, 2]),
    ("nvmlDeviceGetRetiredPages(DOUBLE_BIT_ECC_ERROR)", [1]),
    ("nvmlDeviceGetNvLinkState(3)", [3]),
    ("nvmlDeviceGetNvLinkErrorCounter(3,DL_REPLAY)", [3, 0]),
    ("nvmlDeviceGetP2PStatus(5,READ)", ["handle 5", 0]),
    ("nvmlDeviceGetP2PStatus(5,NVLINK)", ["handle 5", 2]),
    ("nvmlDeviceGetTopologyCommonAncestor(2)", ["handle 2"]),
    ("nvmlDeviceGetFieldValues(NVML_FI_DEV_NVLINK_LINK_COUNT)", [pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT]),
    ("nvmlDeviceGetPersistenceMode", []),
]


@pytest.mark.parametrize(("call", "arguments"), ARGUMENTS)
def test_arguments(call: str, arguments: list[Any]) -> None:
    """The words in brackets become the constants of pynvml, numbers stay, other GPUs become their handles."""
    assert arguments_of(call, lambda index: f"handle {index}") == arguments


def test_watched_calls_exist() -> None:
    """Every call that is watched is one that pynvml has, in all its versions."""
    for call in (*SYSTEM, *IDENTITY, *WATCHED):
        name = call.partition("(")[0]
        assert all(hasattr(pynvml, version) for version in VERSIONS.get(name, (name,)))
        assert callable(function_of(call))


def test_throttle_bits() -> None:
    """The bits and their meaning are those of nvml.h."""
    names = {
        "idle": "GpuIdle", "application_clocks": "ApplicationsClocksSetting", "power_cap": "SwPowerCap",
        "hardware_slowdown": "HwSlowdown", "sync_boost": "SyncBoost", "software_thermal": "SwThermalSlowdown",
        "hardware_thermal": "HwThermalSlowdown", "power_brake": "HwPowerBrakeSlowdown",
        "display_clocks": "DisplayClockSetting",
    }  # fmt: skip
    assert {word: getattr(pynvml, f"nvmlClocksEventReason{name}") for word, name in names.items()} == throttle.REASONS
    assert sum(throttle.REASONS.values()) == pynvml.nvmlClocksEventReasonAll


@pytest.mark.parametrize(
    ("bits", "slowed"), [(0, False), (0x1, False), (0x4, False), (0x10, False), (0x8, True), (0x20, True), (0x44, True), (0x80, True)]
)  # fmt: skip
def test_which_reasons_are_slowdowns(bits: int, slowed: bool) -> None:
    """Heat and missing power slow a GPU down; idling, set clocks, the power limit and a slow neighbour do not count."""
    assert throttle.slowed_down(bits) is slowed
    assert sum(throttle.active(bits).values()) == bits.bit_count()


def test_plain_values() -> None:
    """Structures become objects, pairs become objects with the fields' names, bytes become text."""

    class Rates(ctypes.Structure):
        _fields_ = (("gpu", ctypes.c_uint), ("name", ctypes.c_char * 8))

    assert plain("", Rates(97, b"abc")) == {"gpu": 97, "name": "abc"}
    assert plain("nvmlDeviceGetMigMode", [1, 0]) == {"currentMode": 1, "pendingMode": 0}
    assert plain("nvmlDeviceGetCudaComputeCapability", (9, 0)) == [9, 0]
    assert plain("nvmlDeviceGetUUID", b"GPU-1\xff") == "GPU-1\\xff"
    assert plain("", [None, 3]) == [None, 3]
