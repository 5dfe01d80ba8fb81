from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from aidiag.collectors.gpu.nvml import NvmlReader
from aidiag.collectors.recorded import RecordedNode

SOURCE = Path(__file__).with_name("fake_nvml.c")
LIBRARY = "libnvidia-ml.so.1"
HEALTHY: Mapping[str, str] = {
    "memory": "81559 551 40000",
    "utilization": "97",
    "temperature": "61",
    "margin": "26",
    "power": "650000",
    "limit": "700000",
    "clock": "1965 1980",
    "throttle": "0x4",
    "ecc": "0 0",
    "remapped": "0 0 0 0",
}


class FakeNvml:
    """A compiled NVML whose answers the test sets, also while a program runs."""

    def __init__(self, library: Path) -> None:
        self.library = library
        self.environ = {"AIDIAG_NVML_LIBRARY": str(library)}
        self._made: list[NvmlReader] = []
        self.set(2)

    def set(self, count: int, *lines: str, driver: str = "580.65.06") -> None:
        """So many healthy GPUs, whose answers `lines` change: `1 lost 1`, `system fail nvmlInit 9`."""
        healthy = [f"{index} {key} {text}" for index in range(count) for key, text in HEALTHY.items()]
        text = "\n".join([*lines, f"system driver {driver}", f"system count {count}", *healthy]) + "\n"
        new = self.library.with_name("gpus.new")
        new.write_text(text)
        new.replace(self.library.with_name("gpus"))

    def calls(self) -> list[str]:
        """The calls so far, `WHO FUNCTION`, if the line `system log 1` is set."""
        return self.library.with_name("calls").read_text().splitlines()

    def reader(self, **more: Any) -> NvmlReader:
        """A reader of this library, ended with the test."""
        self._made.append(NvmlReader(more.pop("environ", self.environ), **more))
        return self._made[-1]

    def close(self) -> None:
        """End the readers."""
        for reader in self._made:
            reader.close()


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compiles the fake library, once for each set of compiler flags."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    made: dict[tuple[str, ...], Path] = {}

    def compile_with(*flags: str) -> Path:
        if compiler is None:
            missing = pytest.fail if os.environ.get("AIDIAG_CI") == "1" else pytest.skip
            missing("gcc is not installed; a fake NVML is compiled with it")
        if flags not in made:
            made[flags] = tmp_path_factory.mktemp("nvml") / LIBRARY
            options = ["-shared", "-fPIC", "-O1", f"-Wl,-soname,{LIBRARY}", *flags]
            subprocess.run([compiler, *options, "-o", str(made[flags]), str(SOURCE), "-ldl"], check=True)
        return made[flags]

    return compile_with


@pytest.fixture
def fake_nvml(compiled: Callable[..., Path], tmp_path: Path) -> Iterator[FakeNvml]:
    """A fake NVML with two healthy GPUs."""
    fake = FakeNvml(Path(shutil.copy(compiled(), tmp_path / LIBRARY)))
    yield fake
    fake.close()


@pytest.fixture
def old_nvml(compiled: Callable[..., Path], tmp_path: Path) -> Iterator[FakeNvml]:
    """The same without the symbols that old drivers lack."""
    fake = FakeNvml(Path(shutil.copy(compiled("-DOLD"), tmp_path / LIBRARY)))
    yield fake
    fake.close()


def recorded_gpu(index: int, **changes: Any) -> dict[str, Any]:
    """What NVML says of a healthy, busy GPU in a recording; `changes` are other answers by call."""
    gpu = {
        "nvmlDeviceGetHandleByIndex": "ok",
        "nvmlDeviceGetName": "NVIDIA H100 80GB HBM3",
        "nvmlDeviceGetUUID": f"GPU-{index:08x}-7c1e-4d52-9b1a-000000000000",
        "nvmlDeviceGetPciInfo": {"busId": f"00000000:{0x1B + index:02X}:00.0", "pciDeviceId": 590352606},
        "nvmlDeviceGetMemoryInfo": {"total": 80 << 30, "reserved": 1 << 29, "used": 40 << 30, "free": 39 << 30},
        "nvmlDeviceGetComputeRunningProcesses": [],
        "nvmlDeviceGetUtilizationRates": {"gpu": 97, "memory": 40},
        "nvmlDeviceGetCurrentClocksEventReasons": 0,
        "nvmlDeviceGetTemperature(GPU)": 61,
        "nvmlDeviceGetMarginTemperature": 26,
        "nvmlDeviceGetPowerUsage": 650_000,
        "nvmlDeviceGetEnforcedPowerLimit": 700_000,
        "nvmlDeviceGetClockInfo(SM)": 1965,
        "nvmlDeviceGetMaxClockInfo(SM)": 1980,
        "nvmlDeviceGetTotalEccErrors(CORRECTED,VOLATILE)": 3,
        "nvmlDeviceGetTotalEccErrors(UNCORRECTED,VOLATILE)": 0,
        "nvmlDeviceGetRemappedRows": {"corrRows": 0, "uncRows": 0, "isPending": 0, "failureOccurred": 0},
    }
    return {**gpu, **changes}


@pytest.fixture
def gpu_answers() -> Callable[..., dict[str, Any]]:
    """Makes the answers about one GPU."""
    return recorded_gpu


@pytest.fixture
def recorded_gpus(tmp_path: Path) -> Callable[..., RecordedNode]:
    """Makes a recorded node with these GPUs, in a container or not, with these processes (pid -> parent)."""

    def record(
        gpus: Sequence[Mapping[str, Any]],
        *,
        container: Mapping[str, str] | None = None,
        processes: Mapping[int, int] | None = None,
        **system: Any,
    ) -> RecordedNode:
        tree = tmp_path / "recorded"
        (tree / "proc").mkdir(parents=True)
        (tree / "node.json").write_text(json.dumps({"hostname": "node-a", "container": container, "time": 5000.0}))
        facts = {"nvmlInit": "ok", "nvmlSystemGetDriverVersion": "570.86.15", "nvmlDeviceGetCount": len(gpus)}
        (tree / "nvml.json").write_text(json.dumps({**facts, "gpus": list(gpus), **system}))
        for pid, parent in (processes or {}).items():
            (tree / f"proc/{pid}").mkdir()
            (tree / f"proc/{pid}/stat").write_text(f"{pid} (python3) S {parent} " + "0 " * 17 + "4711 0 0\n")
        return RecordedNode(tree)

    return record
