"""A compiled NVML asked through the helper process, with the faults of real ones."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from aidiag.collectors.errors import CollectorError, HungError, UnavailableError
from aidiag.collectors.gpu.nvml import IDENTITY, WATCHED, NvmlReader
from aidiag.collectors.gpu.nvml_library import find_library, is_trusted


def test_shape(fake_nvml: Any) -> None:
    """Every call that is watched is answered, in the shape of a recorded nvml.json."""
    fake_nvml.set(2, "1 throttle 0x48", "0 process 4711 4000", "0 process 4712 -1", "0 ecc 3 1")
    facts = fake_nvml.reader().read()
    assert facts["nvmlInit"] == "ok" and facts["nvmlDeviceGetCount"] == 2
    first, second = facts["gpus"]
    assert set(first) == {"nvmlDeviceGetHandleByIndex", *IDENTITY, *WATCHED}
    assert first["nvmlDeviceGetUUID"] == "GPU-00000000-0000-0000-0000-000000000000"
    assert first["nvmlDeviceGetPciInfo"]["busId"] == "00000000:11:00.0"
    memory = first["nvmlDeviceGetMemoryInfo"]
    assert (memory["total"], memory["reserved"], memory["used"]) == (81559 << 20, 551 << 20, 40000 << 20)
    assert first["nvmlDeviceGetUtilizationRates"] == {"gpu": 97, "memory": 48}
    assert [(held["pid"], held["usedGpuMemory"]) for held in first["nvmlDeviceGetComputeRunningProcesses"]] == [
        (4711, 4000 << 20), (4712, None),
    ]  # fmt: skip
    assert first["nvmlDeviceGetTotalEccErrors(UNCORRECTED,VOLATILE)"] == 1
    assert first["nvmlDeviceGetTotalEccErrors(CORRECTED,VOLATILE)"] == 3
    assert first["nvmlDeviceGetClockInfo(SM)"] == 1965 and first["nvmlDeviceGetMaxClockInfo(SM)"] == 1980
    assert second["nvmlDeviceGetCurrentClocksEventReasons"] == 0x48
    assert second["nvmlDeviceGetRemappedRows"] == {"corrRows": 0, "uncRows": 0, "isPending": 0, "failureOccurred": 0}


def test_change_while_running(fake_nvml: Any) -> None:
    """One helper serves all readings, and each shows the memory of its moment."""
    reader = fake_nvml.reader()
    seen = []
    for used in (100, 70000, 50):
        fake_nvml.set(1, f"0 memory 81559 551 {used}")
        seen.append(reader.read()["gpus"][0]["nvmlDeviceGetMemoryInfo"]["used"] >> 20)
    assert seen == [100, 70000, 50]
    assert reader._helper.starts == 1


def test_lost_gpu(fake_nvml: Any) -> None:
    """A GPU that falls off the bus answers so, keeps its identity, and the others are read on."""
    reader = fake_nvml.reader()
    reader.read()
    fake_nvml.set(3, "1 lost 1")
    one, lost, three = reader.read()["gpus"]
    assert lost["*"] == {"error": "NVML_ERROR_GPU_IS_LOST"} and "nvmlDeviceGetMemoryInfo" not in lost
    assert lost["nvmlDeviceGetUUID"].endswith("1")
    assert all("nvmlDeviceGetMemoryInfo" in gpu and "*" not in gpu for gpu in (one, three))
    again = reader.read()["gpus"][1]
    assert again["nvmlDeviceGetHandleByIndex"] == {"error": "NVML_ERROR_GPU_IS_LOST"}
    fake_nvml.set(3)
    assert "*" not in reader.read()["gpus"][1]


def test_hang_on_one_gpu(fake_nvml: Any) -> None:
    """A call that does not return is named with its time; the other GPUs are read, old values are never repeated, and
    when it has returned all is as before.
    """
    fake_nvml.set(3, "1 hang nvmlDeviceGetPowerUsage 3")
    reader = fake_nvml.reader()
    begin = time.monotonic()
    one, stuck, three = reader.read()["gpus"]
    assert stuck["*"]["hang"] is True and stuck["*"]["call"] == "nvmlDeviceGetPowerUsage"
    assert all("nvmlDeviceGetPowerUsage" in gpu and "*" not in gpu for gpu in (one, three))
    later = reader.read()["gpus"][1]
    assert later["*"]["seconds"] >= stuck["*"]["seconds"]
    assert set(later) == {*IDENTITY, "*"}
    fake_nvml.set(3)
    while "*" in reader.read()["gpus"][1]:
        assert time.monotonic() < begin + 30
        time.sleep(0.1)
    assert reader.read()["gpus"][1]["nvmlDeviceGetPowerUsage"] == 650_000
    assert reader._helper.starts == 1


def test_hang_at_the_start(fake_nvml: Any) -> None:
    """An initialisation that does not return is told as such, without waiting for it."""
    fake_nvml.set(1, "system hang nvmlInit 600")
    reader = fake_nvml.reader()
    assert reader.read(seconds=0.3) == {"*": {"hang": True, "seconds": pytest.approx(0.3, abs=5), "call": "nvmlInit"}}


def test_helper_that_does_not_answer(fake_nvml: Any) -> None:
    """Where the helper as a whole stands still, that is told with its time."""
    reader = fake_nvml.reader()
    reader.read()
    os.kill(reader._helper.pid, 19)
    reader._helper._deadline = 0.2
    with pytest.raises(HungError, match="has not returned for"):
        reader._helper.ask("read", [], [], 0.1, False)
    os.kill(reader._helper.pid, 9)


def test_crash(fake_nvml: Any) -> None:
    """A library that crashes kills the helper only: it is told, tried again, and left alone after three times."""
    fake_nvml.set(2, "1 crash nvmlDeviceGetUtilizationRates")
    reader = fake_nvml.reader()
    for _ in range(3):
        with pytest.raises(CollectorError, match=r"died in read.*signal 11"):
            reader.read()
    with pytest.raises(CollectorError, match="died 3 times; it is not started again"):
        reader.read()
    assert reader._helper.starts == 3


def test_crash_once(fake_nvml: Any) -> None:
    """After one crash the next reading is whole again."""
    fake_nvml.set(1, "0 crash nvmlDeviceGetName")
    reader = fake_nvml.reader()
    with pytest.raises(CollectorError):
        reader.read()
    fake_nvml.set(1)
    assert reader.read()["gpus"][0]["nvmlDeviceGetName"] == "Fake H100 80GB HBM3"


def test_old_driver(old_nvml: Any) -> None:
    """What an old driver does not know is answered as such and asked once; what it names otherwise is read."""
    old_nvml.set(1, "system log 1", "0 throttle 0x20", "0 process 7 100")
    reader = old_nvml.reader()
    for _ in range(3):
        (gpu,) = reader.read(xids=True)["gpus"]
    assert gpu["nvmlDeviceGetMarginTemperature"] == {"error": "NVML_ERROR_FUNCTION_NOT_FOUND"}
    assert gpu["nvmlDeviceGetCurrentClocksEventReasons"] == 0x20
    assert gpu["nvmlDeviceGetComputeRunningProcesses"][0]["pid"] == 7
    assert (
        gpu["nvmlDeviceGetMemoryInfo"]["used"] == (551 + 40000) << 20
        and "reserved" not in gpu["nvmlDeviceGetMemoryInfo"]
    )
    assert reader.read(xids=True)["nvmlEventSetWait"] == {"error": "NVML_ERROR_FUNCTION_NOT_FOUND"}


def test_unsupported_is_asked_once(fake_nvml: Any) -> None:
    """A call that the GPU does not support is made once, the others at every reading."""
    fake_nvml.set(1, "system log 1", "0 fail nvmlDeviceGetPowerUsage 3")
    reader = fake_nvml.reader()
    for _ in range(3):
        assert reader.read()["gpus"][0]["nvmlDeviceGetPowerUsage"] == {"error": "NVML_ERROR_NOT_SUPPORTED"}
    calls = fake_nvml.calls()
    assert calls.count("0 nvmlDeviceGetPowerUsage") == 1
    assert calls.count("0 nvmlDeviceGetTemperature") == 3
    assert calls.count("0 nvmlDeviceGetHandleByIndex") == 1


def test_one_failing_call(fake_nvml: Any) -> None:
    """One call that fails leaves the others of the same GPU."""
    fake_nvml.set(1, "0 fail nvmlDeviceGetPowerUsage 999", "0 fail nvmlDeviceGetTemperature 4")
    (gpu,) = fake_nvml.reader().read()["gpus"]
    assert gpu["nvmlDeviceGetPowerUsage"] == {"error": "NVML_ERROR_UNKNOWN"}
    assert gpu["nvmlDeviceGetTemperature(GPU)"] == {"error": "NVML_ERROR_NO_PERMISSION"}
    assert gpu["nvmlDeviceGetMemoryInfo"]["total"] == 81559 << 20


def test_slow_call(fake_nvml: Any) -> None:
    """A call that takes long is answered with the time that it took."""
    fake_nvml.set(1, "0 hang nvmlDeviceGetPowerUsage 0.4")
    (gpu,) = fake_nvml.reader().read()["gpus"]
    assert gpu["nvmlDeviceGetPowerUsage"]["value"] == 650_000
    assert gpu["nvmlDeviceGetPowerUsage"]["seconds"] >= 0.4


def test_xids(fake_nvml: Any) -> None:
    """Xids are told once, with the GPU that they are of, and not at all where nobody asks."""
    fake_nvml.set(2, "0 xid 79", "1 xid 31")
    reader = fake_nvml.reader()
    assert "nvmlEventSetWait" not in reader.read()
    assert reader.read(xids=True)["nvmlEventSetWait"] == [{"index": 0, "xid": 79}, {"index": 1, "xid": 31}]
    assert reader.read(xids=True)["nvmlEventSetWait"] == []


def test_reload_of_the_driver(fake_nvml: Any) -> None:
    """While the driver is away the helper is ended and asked later and later; then the new version is seen."""
    moment = [0.0]
    reader = fake_nvml.reader(clock=lambda: moment[0])
    assert reader.read()["nvmlSystemGetDriverVersion"] == "580.65.06"
    fake_nvml.set(1, "system fail nvmlDeviceGetCount 9", "system fail nvmlInit 18")
    assert reader.read()["nvmlDeviceGetCount"] == {"error": "NVML_ERROR_DRIVER_NOT_LOADED"}
    pauses = []
    for _ in range(8):
        with pytest.raises(CollectorError, match="being reloaded") as error:
            reader.read()
        pauses.append(error.value.reason.rsplit(" ", 2)[1])
        moment[0] += 60
        assert reader.read()["nvmlInit"] == {"error": "NVML_ERROR_LIB_RM_VERSION_MISMATCH"}
    assert pauses == ["1", "2", "4", "8", "16", "32", "60", "60"]
    fake_nvml.set(1, driver="590.10.01")
    moment[0] += 60
    assert reader.read()["nvmlSystemGetDriverVersion"] == "590.10.01"


@pytest.mark.parametrize("word", ["off", "OFF", "0", "no"])
def test_off_switch(fake_nvml: Any, word: str) -> None:
    """Turned off, nothing is started or asked, and the reason says so."""
    reader = fake_nvml.reader(environ={**fake_nvml.environ, "AIDIAG_NVML": word})
    with pytest.raises(UnavailableError, match="turned off"):
        reader.read()
    assert reader._helper is None


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a host without the driver there is nothing amiss, and no helper is started."""
    if Path("/proc/driver/nvidia/version").exists():
        pytest.skip("this host has an NVIDIA driver")
    monkeypatch.setattr("aidiag.collectors.gpu.nvml.find_library", lambda environ, root: None)
    reader = NvmlReader({})
    with pytest.raises(UnavailableError, match="no NVIDIA driver"):
        reader.read()
    assert reader._helper is None


def test_library_that_is_not_there() -> None:
    """A library that is named and not there is told as an error with a remedy, not as a host without GPUs."""
    reader = NvmlReader({"AIDIAG_NVML_LIBRARY": "/nowhere/libnvidia-ml.so.1"})
    with pytest.raises(CollectorError, match="no file that may be loaded") as error:
        reader.read()
    assert not isinstance(error.value, UnavailableError)
    assert "absolute path" in error.value.remedy


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is careful about owners")
def test_root_loads_only_what_root_owns(fake_nvml: Any, tmp_path: Path) -> None:
    """Root refuses a library that another user could change: by its owner, its mode or a folder above it."""
    library = fake_nvml.library
    assert find_library(fake_nvml.environ, root=True) == str(library)
    os.chown(library, 12345, -1)
    assert find_library(fake_nvml.environ, root=True) is None
    assert find_library(fake_nvml.environ, root=False) == str(library)
    os.chown(library, 0, -1)
    library.chmod(0o666)
    assert not is_trusted(str(library))
    library.chmod(0o644)
    assert is_trusted(str(library))
    tmp_path.chmod(0o777)
    assert not is_trusted(str(library))
    tmp_path.chmod(0o1777)
    assert is_trusted(str(library))
    link = tmp_path / "link"
    link.symlink_to(library)
    assert is_trusted(str(link))


def test_search_path(fake_nvml: Any) -> None:
    """LD_LIBRARY_PATH counts for users and not for root; relative paths never count."""
    environ: Mapping[str, str] = {"LD_LIBRARY_PATH": f":{fake_nvml.library.parent}"}
    assert find_library(environ, root=False) == str(fake_nvml.library)
    assert find_library(environ, root=True) != str(fake_nvml.library)
    assert find_library({"AIDIAG_NVML_LIBRARY": "libnvidia-ml.so.1"}, root=False) is None
