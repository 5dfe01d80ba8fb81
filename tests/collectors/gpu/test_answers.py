"""Answers of NVML and what their absence means."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aidiag.collectors.collector import Context
from aidiag.collectors.errors import CollectorError
from aidiag.collectors.gpu import GpuCollector
from aidiag.collectors.gpu.answers import Answers, NoAnswerError
from aidiag.collectors.gpu.inventory import Inventory
from aidiag.collectors.gpu.nvml import IDENTITY, WATCHED
from aidiag.collectors.gpu.signals import SIGNALS
from aidiag.collectors.observation import Absent, Sample

CALL = "nvmlDeviceGetPowerUsage"


def why(answers: dict[str, Any]) -> NoAnswerError:
    """Why a call has no answer."""
    with pytest.raises(NoAnswerError) as error:
        Answers(answers).number(CALL)
    return error.value


def test_value_with_and_without_time() -> None:
    """A value is a value, also where it is told with the time that it took."""
    assert Answers({CALL: 5}).number(CALL) == 5
    assert Answers({CALL: {"value": 5, "seconds": 3.5}}).number(CALL) == 5
    assert Answers({CALL: {"value": 5, "seconds": 3.5}, "b": 1}).slowest() == (CALL, 3.5)
    assert Answers({CALL: {"used": 7}}).number(CALL, "used") == 7


def test_reasons() -> None:
    """Not supported is normal; lost, forbidden, failed, pending and never asked are not."""
    unsupported = why({CALL: {"error": "NVML_ERROR_NOT_SUPPORTED"}})
    assert not unsupported.expected and "does not tell it" in unsupported.reason
    lost = why({"*": {"error": "NVML_ERROR_GPU_IS_LOST"}})
    assert lost.expected and "Xid 79" in lost.remedy
    assert "NVML_ERROR_TIMEOUT" in why({CALL: {"error": "NVML_ERROR_TIMEOUT"}}).reason
    assert why({}).reason == f"{CALL} was not asked" and why({}).expected
    hang = why({"*": {"hang": True, "seconds": 30.2, "call": "nvmlDeviceGetMemoryInfo"}})
    assert hang.reason == "nvmlDeviceGetMemoryInfo has not returned for 30 s" and hang.pending_seconds == 30.2
    assert why({CALL: {"hang": True}}).reason == f"{CALL} has not returned for 2 s"
    assert "something else than a number" in why({CALL: "many"}).reason


def test_pending() -> None:
    """The pending call is found wherever it stands."""
    assert Answers({CALL: 3}).pending() is None
    assert Answers({CALL: {"hang": True, "seconds": 9}}).pending() == (CALL, 9.0)
    assert Answers({"*": {"hang": True, "seconds": 9, "call": CALL}}).pending() == (CALL, 9.0)
    assert Answers({"*": {"hang": True}}).pending() == ("a call", 2.0)


def listed(*uuids: str) -> list[Answers]:
    """What NVML lists, '' for a GPU that does not tell its UUID."""
    return [Answers({"nvmlDeviceGetUUID": uuid} if uuid else {}) for uuid in uuids]


def test_a_gpu_keeps_its_index() -> None:
    """When a GPU falls off the bus and NVML counts anew, those after it keep their names and it is missing."""
    inventory = Inventory("a")
    placed, missing = inventory.place(listed("A", "B", "C"))
    assert [subject.name for subject, _ in placed] == ["gpu0", "gpu1", "gpu2"] and not missing
    placed, missing = inventory.place(listed("A", "C"))
    assert [subject.name for subject, _ in placed] == ["gpu0", "gpu2"]
    assert [subject.name for subject in missing] == ["gpu1"]
    placed, missing = inventory.place(listed("A", "B", "C"))
    assert [subject.name for subject, _ in placed] == ["gpu0", "gpu1", "gpu2"] and not missing


def test_lost_and_replaced_gpus() -> None:
    """A GPU that only fails to tell its UUID is not missing, and a new one takes the index of one that is gone."""
    inventory = Inventory("a")
    inventory.place(listed("A", "B"))
    placed, missing = inventory.place(listed("A", ""))
    assert [subject.name for subject, _ in placed] == ["gpu0", "gpu1"] and not missing
    placed, missing = inventory.place(listed("A", "NEW"))
    assert [subject.name for subject, _ in placed] == ["gpu0", "gpu1"] and not missing
    inventory.clear()
    placed, missing = inventory.place(listed("NEW"))
    assert [subject.name for subject, _ in placed] == ["gpu0"] and not missing


scalars = st.one_of(st.none(), st.booleans(), st.integers(-10, 1 << 64), st.floats(), st.text(max_size=5))
answers = st.one_of(
    scalars,
    st.lists(scalars, max_size=3),
    st.dictionaries(
        st.sampled_from(["hang", "seconds", "value", "error", "call", "used", "total", "busId", "gpu"]), scalars
    ),
    st.just({"error": "NVML_ERROR_GPU_IS_LOST"}),
)


class AnyNode:
    """A recorded node that answers anything."""

    name, live = "a", False

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts = facts

    def nvml(self) -> dict[str, Any]:
        """What the test has drawn."""
        return self.facts

    def container(self) -> None:
        """The host itself."""

    def link(self, path: str) -> str:
        """None is recorded."""
        raise FileNotFoundError(path)

    read = link


calls = st.sampled_from(["*", "nvmlDeviceGetHandleByIndex", *IDENTITY, *WATCHED])
processes = st.lists(st.dictionaries(st.sampled_from(["pid", "usedGpuMemory"]), scalars), max_size=3)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.dictionaries(calls, st.one_of(answers, processes), max_size=8), max_size=3),
    st.dictionaries(
        st.sampled_from(["nvmlInit", "nvmlDeviceGetCount", "gpus", "nvmlEventSetWait", "*"]), answers, max_size=2
    ),
)
def test_any_answers(gpus: list[dict[str, Any]], system: dict[str, Any]) -> None:
    """Whatever a recording holds, the readings are declared signals with finite numbers, or reasons."""
    declared = {signal.name for signal in SIGNALS}
    collector = GpuCollector(Context(AnyNode({"nvmlInit": "ok", "gpus": gpus, **system})), list)  # type: ignore[arg-type]
    with contextlib.suppress(CollectorError):
        for fact in collector.collect():
            assert not isinstance(fact, Sample | Absent) or fact.signal in declared
            assert not isinstance(fact, Sample) or isinstance(fact.value, str) or math.isfinite(fact.value)
