"""NVML on this machine, in the shape of a recorded node's nvml.json."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from aidiag.collectors.errors import CollectorError, UnavailableError
from aidiag.collectors.gpu.nvml_library import SONAME, find_library
from aidiag.collectors.helper import Helper

SCRIPT = Path(__file__).resolve().with_name("nvml_calls.py")
READ_SECONDS = 1.5
"""How long a reading may take; what has not come by then is told as not returned. Below the helper's own deadline."""
HELPER_SECONDS = 5.0

SYSTEM = ("nvmlSystemGetDriverVersion", "nvmlDeviceGetCount")
IDENTITY = ("nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetPciInfo")
WATCHED = (
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetTemperature(GPU)",
    "nvmlDeviceGetMarginTemperature",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetClockInfo(SM)",
    "nvmlDeviceGetMaxClockInfo(SM)",
    "nvmlDeviceGetTotalEccErrors(CORRECTED,VOLATILE)",
    "nvmlDeviceGetTotalEccErrors(UNCORRECTED,VOLATILE)",
    "nvmlDeviceGetRemappedRows",
)
"""What is read again and again while a job runs."""

RELOADED = ("NVML_ERROR_DRIVER_NOT_LOADED", "NVML_ERROR_LIB_RM_VERSION_MISMATCH", "NVML_ERROR_UNINITIALIZED")
"""Errors after which the library has to be loaded anew."""
RESTART_SECONDS = (1.0, 60.0)
"""How long the helper stays away after such an error: at first, and at most."""


class NvmlReader:
    """Asks NVML in one long-lived helper process. `AIDIAG_NVML=off` turns it off.

    A library that crashes takes only the helper with it (after three times within ten minutes it is left alone for a
    while); after a reload of the driver it is started again, later and later.
    """

    def __init__(self, environ: Mapping[str, str] | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._environ, self._clock = os.environ if environ is None else environ, clock
        self._helper: Helper | None = None
        self._away_until, self._away_seconds = float("-inf"), RESTART_SECONDS[0]

    def read(
        self,
        system_calls: Sequence[str] = SYSTEM,
        gpu_calls: Sequence[str] = tuple(dict.fromkeys((*IDENTITY, *WATCHED))),
        *,
        xids: bool = False,
        seconds: float = READ_SECONDS,
    ) -> Mapping[str, Any]:
        """The answers to calls about the system and about every GPU, as in nvml.json.

        Raises UnavailableError where there is no NVIDIA driver or NVML is turned off, HungError where the helper as a
        whole does not answer, CollectorError where it crashes or may not be started yet.
        """
        helper = self._open()
        answers: Mapping[str, Any] = helper.ask(
            "read", list(system_calls), list(gpu_calls), seconds, xids, deadline_seconds=seconds + HELPER_SECONDS
        )
        errors = {answer.get("error") for answer in answers.values() if isinstance(answer, dict)}
        if errors.isdisjoint(RELOADED):
            self._away_seconds = RESTART_SECONDS[0]
        else:
            helper.kill()
            self._away_until = self._clock() + self._away_seconds
            self._away_seconds = min(2 * self._away_seconds, RESTART_SECONDS[1])
        return answers

    def close(self) -> None:
        """End the helper."""
        if self._helper:
            self._helper.close()

    def _open(self) -> Helper:
        if self._environ.get("AIDIAG_NVML", "").lower() in ("off", "0", "no"):
            raise UnavailableError("NVML is turned off by AIDIAG_NVML", "unset AIDIAG_NVML to see the GPUs")
        wait = self._away_until - self._clock()
        if wait > 0:
            raise CollectorError(f"the driver is being reloaded; NVML is asked again in {wait:.0f} s")
        if self._helper is None:
            library = find_library(self._environ, root=os.geteuid() == 0)
            if library is None:
                raise self._missing()
            environ = {"AIDIAG_NVML_LIBRARY": library}
            self._helper = Helper(SCRIPT, name="NVML", environ=environ, deadline_seconds=HELPER_SECONDS)
        return self._helper

    def _missing(self) -> CollectorError:
        """Why there is no library: no driver at all, or a driver whose library is not to be had."""
        named = self._environ.get("AIDIAG_NVML_LIBRARY")
        if named:
            return CollectorError(
                f"AIDIAG_NVML_LIBRARY={named} is no file that may be loaded",
                "name an absolute path; as root the file and its folders must be root's, and writable by nobody else",
            )
        if Path("/proc/driver/nvidia/version").exists():
            return CollectorError(
                f"the NVIDIA driver is loaded and {SONAME} is not to be found",
                "in a container add `utility` to NVIDIA_DRIVER_CAPABILITIES, or name the file in AIDIAG_NVML_LIBRARY",
            )
        return UnavailableError("there is no NVIDIA driver on this host")


_shared: NvmlReader | None = None


def shared_reader() -> NvmlReader:
    """The one reader of this process, so that no two helpers ask the driver."""
    global _shared
    if _shared is None:
        _shared = NvmlReader()
    return _shared
