"""The answers about one GPU in the shape of nvml.json, and why one is missing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

PENDING_SECONDS = 2.0
"""How long a call of a recording counts as pending that does not say how long: the deadline of a helper."""

LOST = ("NVML_ERROR_GPU_IS_LOST", "NVML_ERROR_RESET_REQUIRED", "NVML_ERROR_UNKNOWN")
"""What a handle answers that cannot be used any more."""

MEANINGS: Mapping[str, tuple[str, str]] = {
    "NVML_ERROR_NOT_SUPPORTED": ("this GPU does not tell it", ""),
    "NVML_ERROR_FUNCTION_NOT_FOUND": ("this driver does not know the call", "update the driver"),
    "NVML_ERROR_NO_PERMISSION": ("this user may not ask", "run aidiag as root"),
    "NVML_ERROR_GPU_IS_LOST": ("the GPU is lost", "look for Xid 79 in the kernel log; reboot the host"),
    "NVML_ERROR_RESET_REQUIRED": ("the GPU needs a reset", "end all processes on it, then nvidia-smi --gpu-reset"),
    "NVML_ERROR_LIBRARY_NOT_FOUND": ("there is no NVIDIA library on this host", ""),
    "NVML_ERROR_DRIVER_NOT_LOADED": ("the NVIDIA driver is not loaded", "modprobe nvidia"),
    "NVML_ERROR_LIB_RM_VERSION_MISMATCH": (
        "the NVIDIA library and the loaded driver are of different versions", "reboot, or reload the driver",
    ),
}  # fmt: skip
"""What errors mean and what helps; others are told by their name."""

NORMAL = ("NVML_ERROR_NOT_SUPPORTED", "NVML_ERROR_FUNCTION_NOT_FOUND")
"""Errors with which nothing is amiss."""


class NoAnswerError(Exception):
    """A call has no answer. `expected` is False where nothing is amiss, `pending_seconds` is set where it has not
    returned.
    """

    def __init__(
        self, call: str, reason: str, remedy: str = "", *, expected: bool = True, pending_seconds: float | None = None
    ) -> None:
        super().__init__(f"{call}: {reason}")
        self.call, self.reason, self.remedy = call, reason, remedy
        self.expected, self.pending_seconds = expected, pending_seconds


class Answers:
    """The answers by call, also those about the system. The key `*` answers every call that is not listed."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers = answers

    def get(self, call: str) -> Any:
        """The value that a call returned. Raises NoAnswerError."""
        answer = self._answers.get(call, self._answers.get("*"))
        if isinstance(answer, dict):
            if answer.get("hang") is True:
                raise _hang(call, answer)
            if set(answer) == {"value", "seconds"}:
                answer = answer["value"]
        if isinstance(answer, dict) and set(answer) == {"error"}:
            name = str(answer["error"])
            meaning, remedy = MEANINGS.get(name, ("it failed", ""))
            reason = f"{meaning} ({call}: {name})"
            raise NoAnswerError(call, reason, remedy, expected=name not in NORMAL)
        if answer is None:
            raise NoAnswerError(call, f"{call} was not asked")
        return answer

    def number(self, call: str, field: str = "") -> float:
        """A number that a call returned, or one field of the structure that it returned. Raises NoAnswerError."""
        answer = self.get(call)
        number = answer.get(field) if field and isinstance(answer, dict) else answer
        if number is None:
            raise NoAnswerError(call, f"{call} does not tell {field or 'it'}", expected=False)
        if not _is_number(number):
            raise NoAnswerError(call, f"{call} gave something else than a number")
        return float(number)

    def word(self, call: str) -> str:
        """A text that a call returned. Raises NoAnswerError."""
        answer = self.get(call)
        if not isinstance(answer, str):
            raise NoAnswerError(call, f"{call} gave something else than a text")
        return answer

    def error(self, call: str) -> str:
        """The name of the error of a call, empty where it gave none."""
        answer = self._answers.get(call, self._answers.get("*"))
        return str(answer["error"]) if isinstance(answer, dict) and set(answer) == {"error"} else ""

    def pending(self, asked: Sequence[str] = ()) -> tuple[str, float] | None:
        """The call that has not returned and since how many seconds, None where all have.

        Where no call returns at all, it is the first of those `asked` that is not listed.
        """
        for call, answer in self._answers.items():
            if isinstance(answer, dict) and answer.get("hang") is True:
                first = next((one for one in asked if one not in self._answers), "a call") if call == "*" else call
                return str(answer.get("call") or first), _seconds(answer.get("seconds"), PENDING_SECONDS)
        return None

    def slowest(self) -> tuple[str, float]:
        """The call that took the longest time of those that are told with a time."""
        times = {
            call: _seconds(answer["seconds"], 0.0)
            for call, answer in self._answers.items()
            if isinstance(answer, dict) and set(answer) == {"value", "seconds"}
        }
        return max(times.items(), key=lambda item: item[1], default=("", 0.0))


def _hang(call: str, answer: Mapping[str, Any]) -> NoAnswerError:
    seconds = _seconds(answer.get("seconds"), PENDING_SECONDS)
    name = str(answer.get("call") or call)
    return NoAnswerError(call, f"{name} has not returned for {seconds:.0f} s", pending_seconds=seconds)


def _seconds(value: Any, otherwise: float) -> float:
    return float(value) if _is_number(value) and value >= 0 else otherwise


def _is_number(value: Any) -> bool:
    """Whether it is a number that NVML could return: no structure of NVML has one above 64 bits."""
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and abs(value) <= 1 << 64
    )
