"""The GPU collector on recorded nodes and on a compiled NVML."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from aidiag.collectors.collector import Context
from aidiag.collectors.errors import CollectorError, HungError, UnavailableError
from aidiag.collectors.gpu import SIGNALS, GpuCollector
from aidiag.collectors.live import LiveNode
from aidiag.collectors.observation import Absent, Event, Observation, Sample
from aidiag.collectors.process.files import parse_stat
from aidiag.collectors.process.ranks import RankProcess
from aidiag.collectors.run_files import ProcessMark, RunFile, encode_run, name_of

Make = Callable[..., Any]
GIB = 1 << 30


class Clock:
    """A clock that the test moves."""

    now = 100.0

    def monotonic(self) -> float:
        """Seconds as set."""
        return self.now

    def unix(self) -> float:
        """A million seconds later."""
        return self.now + 1e6


class Seen:
    """What one or more readings have given."""

    def __init__(self, facts: Sequence[Observation]) -> None:
        self.facts = facts

    def value(self, signal: str, name: str = "gpu0", **labels: str) -> Any:
        """The one value of a signal."""
        (value,) = [
            fact.value
            for fact in self.facts
            if isinstance(fact, Sample)
            and (fact.signal, fact.subject.name) == (signal, name)
            and (not labels or dict(fact.labels) == labels)
        ]
        return value

    def absent(self, signal: str, name: str = "gpu0") -> Absent:
        """Why a signal is absent."""
        (absent,) = [
            fact
            for fact in self.facts
            if isinstance(fact, Absent) and (fact.signal, fact.subject.name) == (signal, name)
        ]
        return absent

    def has(self, signal: str, name: str = "gpu0") -> bool:
        """Whether there is a sample of a signal."""
        return any(
            isinstance(fact, Sample) and (fact.signal, fact.subject.name) == (signal, name) for fact in self.facts
        )

    def events(self) -> list[Event]:
        """The events."""
        return [fact for fact in self.facts if isinstance(fact, Event)]


def look(collector: GpuCollector) -> Seen:
    """One reading."""
    return Seen(list(collector.collect()))


def test_healthy_gpu(recorded_gpus: Make, gpu_answers: Make) -> None:
    """Every declared signal of a healthy GPU has its value in base units."""
    node = recorded_gpus([gpu_answers(0), gpu_answers(1)])
    seen = look(GpuCollector(Context(node, clock=Clock())))
    assert seen.value("gpu_memory_total_bytes") == 80 * GIB and seen.value("gpu_memory_used_bytes") == 40 * GIB
    assert seen.value("gpu_memory_reserved_bytes", "gpu1") == GIB / 2
    assert seen.value("gpu_utilization_ratio") == 0.97
    assert seen.value("gpu_power_watts") == 650 and seen.value("gpu_power_limit_watts") == 700
    assert seen.value("gpu_temperature_celsius") == 61 and seen.value("gpu_temperature_margin_celsius") == 26
    assert seen.value("gpu_sm_clock_hertz") == 1.965e9 and seen.value("gpu_sm_clock_limit_hertz") == 1.98e9
    assert seen.value("gpu_ecc_corrected_errors_total") == 3 and seen.value("gpu_ecc_uncorrected_errors_total") == 0
    assert seen.value("gpu_present") == 1 and seen.value("gpu_slowdown_active") == 0
    assert seen.value("gpu_row_remap_pending") == 0 and seen.value("gpu_row_remap_failed") == 0
    assert seen.value("gpu_throttle_active", reason="hardware_thermal") == 0
    assert (
        seen.value("gpu_call_pending_seconds", "node-a") == 0 and seen.value("gpu_call_duration_seconds", "node-a") == 0
    )
    (info,) = [fact for fact in seen.facts if isinstance(fact, Sample) and fact.signal == "gpu_info"][:1]
    assert dict(info.labels) == {
        "gpu_uuid": "GPU-00000000-7c1e-4d52-9b1a-000000000000",
        "pci_bus_id": "0000:1b:00.0",
        "model": "NVIDIA H100 80GB HBM3",
    }
    given = {fact.signal for fact in seen.facts if isinstance(fact, Sample)}
    blind = {"gpu_pending_call", "gpu_memory_foreign_at_most_bytes"}  # only where something cannot be seen
    assert given == {signal.name for signal in SIGNALS} - blind
    assert not [fact for fact in seen.facts if isinstance(fact, Absent)]


def test_hot_gpu(recorded_gpus: Make, gpu_answers: Make) -> None:
    """A GPU whose clocks the hardware holds down is slowed down, with the reasons; its neighbour is not."""
    node = recorded_gpus([gpu_answers(0), gpu_answers(1, nvmlDeviceGetCurrentClocksEventReasons=0x48)])
    seen = look(GpuCollector(Context(node)))
    assert seen.value("gpu_slowdown_active", "gpu1") == 1 and seen.value("gpu_slowdown_active", "gpu0") == 0
    assert seen.value("gpu_throttle_active", "gpu1", reason="hardware_thermal") == 1
    assert seen.value("gpu_throttle_active", "gpu1", reason="hardware_slowdown") == 1
    assert seen.value("gpu_throttle_active", "gpu1", reason="power_cap") == 0


def test_lost_gpu(recorded_gpus: Make, gpu_answers: Make) -> None:
    """A lost GPU is present 0 and says why it says nothing; the others are as they were."""
    lost = {"error": "NVML_ERROR_GPU_IS_LOST"}
    node = recorded_gpus([gpu_answers(0), {"nvmlDeviceGetHandleByIndex": lost, "*": lost}, gpu_answers(2)])
    seen = look(GpuCollector(Context(node)))
    assert [seen.value("gpu_present", f"gpu{index}") for index in range(3)] == [1, 0, 1]
    absent = seen.absent("gpu_memory_used_bytes", "gpu1")
    assert absent.expected and "the GPU is lost" in absent.reason and "Xid 79" in absent.remedy
    assert seen.has("gpu_memory_used_bytes", "gpu2") and not seen.has("gpu_throttle_active", "gpu1")


def test_hung_gpu(recorded_gpus: Make, gpu_answers: Make) -> None:
    """What a GPU whose calls do not return would say is unknown; the call is named, the others are read."""
    hung = {"nvmlDeviceGetHandleByIndex": "ok", "*": {"hang": True}}
    node = recorded_gpus([gpu_answers(0), hung])
    seen = look(GpuCollector(Context(node)))
    assert seen.absent("gpu_memory_used_bytes", "gpu1").reason == "nvmlDeviceGetMemoryInfo has not returned for 2 s"
    assert seen.value("gpu_call_pending_seconds", "node-a") == 2
    assert seen.value("gpu_pending_call", "gpu1") == "nvmlDeviceGetUUID" and not seen.has("gpu_pending_call", "gpu0")
    assert seen.value("gpu_memory_used_bytes", "gpu0") == 40 * GIB


def test_things_that_a_gpu_does_not_have(recorded_gpus: Make, gpu_answers: Make) -> None:
    """What is not supported is absent without anything being amiss; what is not recorded is unknown."""
    answers = gpu_answers(0, nvmlDeviceGetMarginTemperature={"error": "NVML_ERROR_NOT_SUPPORTED"})
    del answers["nvmlDeviceGetPowerUsage"]
    seen = look(GpuCollector(Context(recorded_gpus([answers]))))
    assert not seen.absent("gpu_temperature_margin_celsius").expected
    assert seen.absent("gpu_power_watts").expected and "was not asked" in seen.absent("gpu_power_watts").reason


@pytest.mark.parametrize(
    ("system", "kind", "text"),
    [
        ({"nvmlInit": {"error": "NVML_ERROR_LIBRARY_NOT_FOUND"}}, UnavailableError, "no NVIDIA library"),
        ({"nvmlInit": {"error": "NVML_ERROR_LIB_RM_VERSION_MISMATCH"}}, CollectorError, "different versions"),
        ({"nvmlInit": {"hang": True}}, HungError, "nvmlInit has not returned for 2 s"),
        ({"nvmlDeviceGetCount": {"error": "NVML_ERROR_UNKNOWN"}}, CollectorError, "NVML_ERROR_UNKNOWN"),
    ],
)
def test_nothing_at_all(recorded_gpus: Make, system: dict[str, Any], kind: type[CollectorError], text: str) -> None:
    """Without NVML the collector says why, and with which kind of end."""
    with pytest.raises(kind, match=text) as error:
        look(GpuCollector(Context(recorded_gpus([], **system))))
    assert type(error.value) is kind


def holding(*processes: tuple[int, int | None]) -> list[dict[str, Any]]:
    """Processes on a GPU with the GiB that they hold."""
    return [{"pid": pid, "usedGpuMemory": None if held is None else held * GIB} for pid, held in processes]


def test_foreign_memory(recorded_gpus: Make, gpu_answers: Make) -> None:
    """Ranks and what descends from them are the job's, all else is foreign."""
    node = recorded_gpus(
        [gpu_answers(0, nvmlDeviceGetComputeRunningProcesses=holding((20, 30), (21, 2), (99, 5))), gpu_answers(1)],
        processes={10: 1, 20: 10, 21: 20, 99: 1},
    )
    ranks = [RankProcess("job", 0, "node-a", 20, 4711)]
    seen = look(GpuCollector(Context(node, job="job"), lambda: ranks))
    assert seen.value("gpu_memory_foreign_bytes") == 5 * GIB and seen.value("gpu_memory_foreign_bytes", "gpu1") == 0
    assert seen.value("gpu_processes", owner="job") == 2 and seen.value("gpu_processes", owner="foreign") == 1
    assert seen.value("gpu_processes", "gpu1", owner="foreign") == 0


def test_reused_pid_of_a_rank(recorded_gpus: Make, gpu_answers: Make) -> None:
    """A process that has got the number of a dead rank is not the job's."""
    node = recorded_gpus(
        [gpu_answers(0, nvmlDeviceGetComputeRunningProcesses=holding((20, 30)))], processes={20: 1, 30: 1}
    )
    ranks = [RankProcess("job", 0, "node-a", 20, 999), RankProcess("job", 1, "node-a", 30, 4711)]
    seen = look(GpuCollector(Context(node, job="job"), lambda: ranks))
    assert seen.value("gpu_memory_foreign_bytes") == 30 * GIB


def test_before_a_job(recorded_gpus: Make, gpu_answers: Make) -> None:
    """Where no job runs every process is foreign; where one is named and none of it is seen, nothing is claimed."""
    node = recorded_gpus([gpu_answers(0, nvmlDeviceGetComputeRunningProcesses=holding((99, 5)))], processes={99: 1})
    assert look(GpuCollector(Context(node), list)).value("gpu_memory_foreign_bytes") == 5 * GIB
    named = look(GpuCollector(Context(node, job="j7"), list))
    assert named.absent("gpu_memory_foreign_bytes").reason == "no process of job j7 is known here yet"


@pytest.mark.parametrize("processes", [[], [(99, 5)]])
def test_container(recorded_gpus: Make, gpu_answers: Make, processes: list[tuple[int, int]]) -> None:
    """In a container with its own PID namespace neither an empty list nor numbers of the host prove anything."""
    own = {"runtime": "containerd", "pid_namespace": "own"}
    answers = gpu_answers(0, nvmlDeviceGetComputeRunningProcesses=holding(*processes))
    seen = look(GpuCollector(Context(recorded_gpus([answers], container=own)), list))
    absent = seen.absent("gpu_memory_foreign_bytes")
    assert absent.expected and "proves nothing" in absent.reason and "hostPID" in absent.remedy
    assert not seen.has("gpu_processes")


def test_idle_gpu_of_a_container(recorded_gpus: Make, gpu_answers: Make) -> None:
    """On a GPU with little memory in use nobody holds more, whatever processes can be seen; who holds it is not known."""
    idle = {"total": 80 * GIB, "reserved": GIB, "used": 3 << 20, "free": 79 * GIB}
    node = recorded_gpus([gpu_answers(0, nvmlDeviceGetMemoryInfo=idle)], container={"pid_namespace": "own"})
    seen = look(GpuCollector(Context(node), list))
    assert seen.value("gpu_memory_foreign_at_most_bytes") == 3 << 20
    assert "proves nothing" in seen.absent("gpu_memory_foreign_bytes").reason


def test_memory_that_is_not_told(recorded_gpus: Make, gpu_answers: Make) -> None:
    """A foreign process whose share the driver does not tell makes the sum unknown, not zero."""
    node = recorded_gpus([gpu_answers(0, nvmlDeviceGetComputeRunningProcesses=holding((99, None)))], processes={99: 1})
    seen = look(GpuCollector(Context(node), list))
    assert "does not tell how much memory process 99" in seen.absent("gpu_memory_foreign_bytes").reason


def test_job_of_aidiag_run(recorded_gpus: Make, gpu_answers: Make, tmp_path: Path) -> None:
    """What descends from the command of `aidiag run` is the job's, records or not."""
    run = RunFile("7", "j", "node-a", ("torchrun",), "/w", 1.0, None, child=ProcessMark(10, 4711, 0, ""))
    (tmp_path / name_of("7")).write_bytes(encode_run(run))
    node = recorded_gpus(
        [gpu_answers(0, nvmlDeviceGetComputeRunningProcesses=holding((20, 30), (99, 1)))],
        processes={10: 7, 20: 10, 99: 1},
    )
    seen = look(GpuCollector(Context(node, job="j", host_folder=tmp_path), list))
    assert seen.value("gpu_memory_foreign_bytes") == GIB


def live(fake_nvml: Any, ranks: Sequence[RankProcess] = (), clock: Clock | None = None, **more: Any) -> GpuCollector:
    """A collector of this machine with a fake NVML."""
    context = Context(LiveNode(name="node-a"), clock=clock or Clock(), **more)
    return GpuCollector(context, lambda: ranks, fake_nvml.reader())


def test_live_processes(fake_nvml: Any) -> None:
    """Real processes: a rank's child is the job's, another process is foreign, memory changes from reading to reading."""
    program = "import os, time\nprint(os.fork() or 0, flush=True)\ntime.sleep(600)"
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", program], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as rank:
        assert rank.stdout
        child = max(int(rank.stdout.readline()), int(rank.stdout.readline()))
        start = parse_stat(Path(f"/proc/{rank.pid}/stat").read_bytes()).start_ticks
        collector = live(fake_nvml, [RankProcess("job", 0, "node-a", rank.pid, start)], job="job")
        fake_nvml.set(1, f"0 process {rank.pid} 1000", f"0 process {child} 500", f"0 process {os.getpid()} 3072")
        seen = look(collector)
        os.killpg(rank.pid, 9)
    if seen.has("gpu_memory_foreign_bytes"):
        assert seen.value("gpu_memory_foreign_bytes") == 3 * GIB
        assert seen.value("gpu_processes", owner="job") == 2
    else:  # the tests run in a container of their own
        assert "proves nothing" in seen.absent("gpu_memory_foreign_bytes").reason


def test_live_fall_off_the_bus(fake_nvml: Any) -> None:
    """A GPU that is lost while we watch is present 0 under its index, also when NVML then counts without it."""
    collector = live(fake_nvml)
    fake_nvml.set(3)
    assert [look(collector).value("gpu_present", f"gpu{index}") for index in range(3)] == [1, 1, 1]
    fake_nvml.set(3, "1 lost 1")
    assert [look(collector).value("gpu_present", f"gpu{index}") for index in range(3)] == [1, 0, 1]
    fake_nvml.set(2, "1 uuid GPU-00000000-0000-0000-0000-000000000002", "1 memory 81559 551 7")
    seen = look(collector)
    assert [seen.value("gpu_present", f"gpu{index}") for index in range(3)] == [1, 0, 1]
    assert seen.value("gpu_memory_used_bytes", "gpu2") == 7 << 20


def test_live_hang(fake_nvml: Any) -> None:
    """A pending call is told with its name and growing time; what it would have said is absent, not old."""
    clock = Clock()
    collector = live(fake_nvml, clock=clock)
    assert look(collector).has("gpu_memory_used_bytes", "gpu1")
    fake_nvml.set(2, "1 hang nvmlDeviceGetMemoryInfo 600")
    first, second = look(collector), look(collector)
    assert first.value("gpu_pending_call", "gpu1") == "nvmlDeviceGetMemoryInfo"
    assert second.value("gpu_call_pending_seconds", "node-a") > first.value("gpu_call_pending_seconds", "node-a") > 0
    assert "nvmlDeviceGetMemoryInfo has not returned for" in second.absent("gpu_memory_used_bytes", "gpu1").reason
    assert second.has("gpu_memory_used_bytes", "gpu0") and not second.has("gpu_utilization_ratio", "gpu1")


def test_live_hang_at_the_start(fake_nvml: Any) -> None:
    """The pending time is told even where nothing else can be."""
    fake_nvml.set(1, "system hang nvmlInit 600")
    collector = live(fake_nvml)
    told: list[Observation] = []
    with pytest.raises(HungError, match="nvmlInit has not returned"):
        told.extend(collector.collect())
    assert Seen(told).value("gpu_call_pending_seconds", "node-a") > 0


def test_live_slow_nvml(fake_nvml: Any) -> None:
    """After a slow call NVML is left alone for half a minute."""
    clock = Clock()
    fake_nvml.set(1, "0 hang nvmlDeviceGetPowerUsage 1.05")
    collector = live(fake_nvml, clock=clock)
    assert look(collector).value("gpu_call_duration_seconds", "node-a") >= 1.05
    fake_nvml.set(1)
    seen = []
    for _ in range(4):
        clock.now += 10
        seen.append(bool(look(collector).facts))
    assert seen == [False, False, True, True]


def test_live_xid(fake_nvml: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a kernel log Xids come from NVML with their GPU; with one they are left to it, so that none counts twice."""
    fake_nvml.set(2, "1 xid 79")
    readable = [True]
    monkeypatch.setattr("aidiag.collectors.gpu.collector.can_read", lambda: readable[0])
    collector = live(fake_nvml)
    assert look(collector).events() == []
    assert "xid" not in collector.watched()
    readable[0] = False
    (event,) = look(collector).events()
    assert event.kind == "xid" and event.subject and event.subject.name == "gpu1"
    assert event.fields == {"xid": 79, "pci_bus_id": "0000:12:00.0", "detail": ""}
    assert "xid" in collector.watched()
    assert look(collector).events() == []


def test_live_driver_change(fake_nvml: Any) -> None:
    """Another version of the driver is told once, from what to what."""
    collector = live(fake_nvml)
    assert look(collector).events() == []
    fake_nvml.set(2, driver="590.10.01")
    assert [event.fields for event in look(collector).events()] == [{"old": "580.65.06", "new": "590.10.01"}]
    assert look(collector).events() == []
