"""The names that nvml.json gives to calls of NVML (docs/recorded-node.md), and the functions of pynvml behind them.

Loaded by path in the helper process, beside `nvml_calls.py`; imports nothing of aidiag.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import Any

import pynvml

ERRORS = {getattr(pynvml, name): name for name in dir(pynvml) if name.startswith("NVML_ERROR_")}

ARGUMENTS = {
    "nvmlDeviceGetTemperature": ("NVML_TEMPERATURE_{}",),
    "nvmlDeviceGetTemperatureThreshold": ("NVML_TEMPERATURE_THRESHOLD_{}",),
    "nvmlDeviceGetClockInfo": ("NVML_CLOCK_{}",),
    "nvmlDeviceGetMaxClockInfo": ("NVML_CLOCK_{}",),
    "nvmlDeviceGetApplicationsClock": ("NVML_CLOCK_{}",),
    "nvmlDeviceGetTotalEccErrors": ("NVML_MEMORY_ERROR_TYPE_{}", "NVML_{}_ECC"),
    "nvmlDeviceGetMemoryErrorCounter": ("NVML_MEMORY_ERROR_TYPE_{}", "NVML_{}_ECC", "NVML_MEMORY_LOCATION_{}"),
    "nvmlDeviceGetRetiredPages": ("NVML_PAGE_RETIREMENT_CAUSE_{}",),
    "nvmlDeviceGetNvLinkErrorCounter": ("{}", "NVML_NVLINK_ERROR_{}"),
    "nvmlDeviceGetP2PStatus": ("{}", "NVML_P2P_CAPS_INDEX_{}"),
}
"""The constants of pynvml that the words in brackets stand for."""

PEERS = ("nvmlDeviceGetTopologyCommonAncestor", "nvmlDeviceGetP2PStatus")
"""Calls whose first argument is another GPU, in nvml.json by its index."""

FIELDS = {
    "nvmlDeviceGetMigMode": ("currentMode", "pendingMode"),
    "nvmlDeviceGetEccMode": ("current", "pending"),
    "nvmlDeviceGetGspFirmwareMode": ("isEnabled", "defaultMode"),
    "nvmlDeviceGetPowerManagementLimitConstraints": ("minLimit", "maxLimit"),
    "nvmlDeviceGetRemappedRows": ("corrRows", "uncRows", "isPending", "failureOccurred"),
}
"""Names of the values that pynvml gives as a list."""

VERSIONS = {
    "nvmlDeviceGetCurrentClocksEventReasons": (
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetCurrentClocksThrottleReasons",
    ),
    "nvmlDeviceGetComputeRunningProcesses": (
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetComputeRunningProcesses_v2",
    ),
}
"""The same question to drivers of different age, newest first."""


def function_of(call: str) -> Callable[..., Any]:
    """The function of a call, to be called with the handle and `arguments_of` the call."""
    name = call.partition("(")[0]
    special: dict[str, Callable[..., Any]] = {
        "nvmlDeviceGetMemoryInfo": _memory_info,
        "nvmlDeviceGetFieldValues": _field_value,
        "nvmlDeviceGetGpuFabricInfoV": _fabric_info,
        "nvmlDeviceGetSramEccErrorStatus": _sram_status,
    }
    if name in special:
        return special[name]

    def ask(*arguments: Any) -> Any:
        *newer, oldest = VERSIONS.get(name, (name,))
        for version in newer:
            try:
                return getattr(pynvml, version)(*arguments)
            except pynvml.NVMLError as error:
                if error.value != pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
                    raise
        return getattr(pynvml, oldest)(*arguments)

    return ask


def arguments_of(call: str, handles: Callable[[int], Any]) -> list[Any]:
    """The arguments of a call after the handle; `handles` gives the handle of another GPU."""
    name, _, rest = call.partition("(")
    words = rest.rstrip(")").split(",") if rest else []
    forms = ARGUMENTS.get(name, ("{}",) * len(words))
    found = [
        int(word) if re.fullmatch(r"\d+", word) else _constant(form.format(word))
        for form, word in zip(forms, words, strict=True)
    ]
    return [handles(found[0]), *found[1:]] if name in PEERS else found


def plain(call: str, result: Any) -> Any:
    """A result as JSON has it: a structure as an object, None where NVML does not tell a value."""
    fields = FIELDS.get(call.partition("(")[0])
    if fields and isinstance(result, list | tuple):
        return dict(zip(fields, result, strict=False))
    if isinstance(result, bytes):
        return result.decode(errors="backslashreplace")
    if isinstance(result, ctypes.Structure):
        return {field[0]: plain("", getattr(result, field[0])) for field in result._fields_}
    if isinstance(result, list | tuple | ctypes.Array):
        return [plain("", item) for item in result]
    if result is None or isinstance(result, int | float | str):
        return result
    return {key: plain("", item) for key, item in vars(result).items()}


def _constant(name: str) -> Any:
    """A constant of pynvml; one of them is a tuple by mistake."""
    number = getattr(pynvml, name)
    return number[0] if isinstance(number, tuple) else number


def _memory_info(handle: Any) -> Any:
    """Version 2, whose `used` is without what the driver reserves; version 1 of older drivers has no `reserved`."""
    try:
        return pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    except pynvml.NVMLError as error:
        if error.value not in (pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH):
            raise
        return pynvml.nvmlDeviceGetMemoryInfo(handle)


def _field_value(handle: Any, field: int) -> Any:
    """One value of nvmlDeviceGetFieldValues, of the type that it says (nvmlValueType_t)."""
    answer = pynvml.nvmlDeviceGetFieldValues(handle, [field])[0]
    if answer.nvmlReturn != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(answer.nvmlReturn)
    kinds = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
    return getattr(answer.value, kinds[answer.valueType])


def _fabric_info(handle: Any) -> Any:
    info = pynvml.c_nvmlGpuFabricInfo_v2_t()
    info.version = pynvml.nvmlGpuFabricInfo_v2
    pynvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
    return info


def _sram_status(handle: Any) -> Any:
    status = pynvml.c_nvmlEccSramErrorStatus_v1_t()
    pynvml.nvmlDeviceGetSramEccErrorStatus(handle, ctypes.byref(status))
    return status
