"""From the answers about one GPU to samples, or to the reasons why there are none."""

from __future__ import annotations

from collections.abc import Iterator

from aidiag.collectors.gpu.answers import LOST, Answers, NoAnswerError
from aidiag.collectors.gpu.throttle import active, slowed_down
from aidiag.collectors.observation import Absent, Observation, Sample, labels
from aidiag.collectors.pci import pci_address
from aidiag.collectors.subject import Subject

MEGAHERTZ = 1e6

NUMBERS: tuple[tuple[str, str, str, float], ...] = (
    ("gpu_memory_total_bytes", "nvmlDeviceGetMemoryInfo", "total", 1),
    ("gpu_memory_used_bytes", "nvmlDeviceGetMemoryInfo", "used", 1),
    ("gpu_memory_reserved_bytes", "nvmlDeviceGetMemoryInfo", "reserved", 1),
    ("gpu_utilization_ratio", "nvmlDeviceGetUtilizationRates", "gpu", 0.01),
    ("gpu_power_watts", "nvmlDeviceGetPowerUsage", "", 0.001),
    ("gpu_power_limit_watts", "nvmlDeviceGetEnforcedPowerLimit", "", 0.001),
    ("gpu_temperature_celsius", "nvmlDeviceGetTemperature(GPU)", "", 1),
    ("gpu_temperature_margin_celsius", "nvmlDeviceGetMarginTemperature", "", 1),
    ("gpu_sm_clock_hertz", "nvmlDeviceGetClockInfo(SM)", "", MEGAHERTZ),
    ("gpu_sm_clock_limit_hertz", "nvmlDeviceGetMaxClockInfo(SM)", "", MEGAHERTZ),
    ("gpu_ecc_corrected_errors_total", "nvmlDeviceGetTotalEccErrors(CORRECTED,VOLATILE)", "", 1),
    ("gpu_ecc_uncorrected_errors_total", "nvmlDeviceGetTotalEccErrors(UNCORRECTED,VOLATILE)", "", 1),
    ("gpu_row_remap_pending", "nvmlDeviceGetRemappedRows", "isPending", 1),
    ("gpu_row_remap_failed", "nvmlDeviceGetRemappedRows", "failureOccurred", 1),
)
"""Signal, call, field of the structure that it returns, and what makes its unit the base unit (NVML: mW, MHz, %)."""

THROTTLE = "nvmlDeviceGetCurrentClocksEventReasons"
HANDLE = "nvmlDeviceGetHandleByIndex"


def read_gpu(answers: Answers, subject: Subject, now: float) -> Iterator[Observation]:
    """What one GPU says of itself."""
    yield from presence(answers, subject, now)
    yield from _identity(answers, subject, now)
    for signal, call, field, scale in NUMBERS:
        try:
            yield Sample(signal, subject, answers.number(call, field) * scale, now)
        except NoAnswerError as error:
            yield _absent(signal, subject, error)
    try:
        bits = int(answers.number(THROTTLE))
    except NoAnswerError as error:
        yield _absent("gpu_throttle_active", subject, error)
        yield _absent("gpu_slowdown_active", subject, error)
        return
    for reason, is_active in active(bits).items():
        yield Sample("gpu_throttle_active", subject, float(is_active), now, labels(reason=reason))
    yield Sample("gpu_slowdown_active", subject, float(slowed_down(bits)), now)


def presence(answers: Answers, subject: Subject, now: float) -> Iterator[Observation]:
    """Whether the GPU can be used: 0 where the driver says that it is lost, absent where it says nothing."""
    try:
        answers.get(HANDLE)
    except NoAnswerError as error:
        if answers.error(HANDLE) in LOST:
            yield Sample("gpu_present", subject, 0.0, now)
        else:
            yield _absent("gpu_present", subject, error)
        return
    lost = answers.error("nvmlDeviceGetUUID") in LOST
    yield Sample("gpu_present", subject, 0.0 if lost else 1.0, now)


def uuid_of(answers: Answers) -> str:
    """The UUID, empty where the GPU does not tell it."""
    return _word(answers, "nvmlDeviceGetUUID")


def _identity(answers: Answers, subject: Subject, now: float) -> Iterator[Observation]:
    uuid = uuid_of(answers)
    if uuid:
        known = labels(gpu_uuid=uuid, pci_bus_id=bus_of(answers), model=_word(answers, "nvmlDeviceGetName"))
        yield Sample("gpu_info", subject, 1.0, now, known)


def bus_of(answers: Answers) -> str:
    """The PCI address, empty where the GPU does not tell it."""
    try:
        pci = answers.get("nvmlDeviceGetPciInfo")
    except NoAnswerError:
        return ""
    return pci_address(str(pci.get("busId", ""))) if isinstance(pci, dict) and pci.get("busId") else ""


def _word(answers: Answers, call: str) -> str:
    try:
        return answers.word(call)
    except NoAnswerError:
        return ""


def _absent(signal: str, subject: Subject, error: NoAnswerError) -> Absent:
    return Absent(signal, subject, error.reason, error.remedy, expected=error.expected)
