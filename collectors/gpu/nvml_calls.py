"""NVML asked in a helper process. `helper/process.py` runs this file; it imports nothing of aidiag.

Answers have the shape of a recorded node's nvml.json (docs/recorded-node.md). A call that takes long is
`{"value", "seconds"}`, an error is `{"error": NVML_ERROR name}`. Where a call has not returned, the key `*` answers it
and those that wait behind it: `{"hang": true, "seconds", "call"}`.

Every GPU has a thread of its own. One that a call does not give back costs only the answers about that GPU.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pynvml

_spec = importlib.util.spec_from_file_location("nvml_names", Path(__file__).with_name("nvml_names.py"))
assert _spec and _spec.loader
names = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(names)

LONG_SECONDS = 0.1
XIDS_LIMIT = 64
XIDS_SECONDS = 0.2
IDENTITY = ("nvmlDeviceGetUUID", "nvmlDeviceGetPciInfo", "nvmlDeviceGetName")
NEVER = ("NVML_ERROR_FUNCTION_NOT_FOUND", "NVML_ERROR_NOT_SUPPORTED")
"""Answers that stay the same as long as the driver does: such a call is made once."""
UNUSABLE = ("NVML_ERROR_GPU_IS_LOST", "NVML_ERROR_RESET_REQUIRED", "NVML_ERROR_UNINITIALIZED")
"""Errors that every further call about the GPU would give."""


class Lane:
    """A thread that makes calls one after the other. `answers` are those of the job that it does or has done."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self._never: dict[str, Any] = {}
        self._call: tuple[str, float] | None = None
        self._job: Callable[[], None] = lambda: None
        self._start, self._done = threading.Semaphore(0), threading.Event()
        self._done.set()
        self._stuck = False
        threading.Thread(target=self._work, daemon=True).start()

    def begin(self, job: Callable[[], None]) -> None:
        """Do a job, unless the last one is still being done: what that one has found so far is too old to be told."""
        self._stuck = not self._done.is_set()
        self.answers = {}
        if not self._stuck:
            self._done.clear()
            self._job = job
            self._start.release()

    def wait(self, until: float) -> None:
        """Wait for the job to be done, or for a moment of time.monotonic()."""
        if not self._stuck:
            self._done.wait(max(0.0, until - time.monotonic()))

    def so_far(self) -> dict[str, Any]:
        """The answers, and what has not returned if the job is not done."""
        if self._done.is_set():
            return dict(self.answers)
        call, since = self._call or ("", time.monotonic())
        hang = {"hang": True, "seconds": round(time.monotonic() - since, 3), "call": call}
        return {**self.answers, "*": hang}

    def ask(self, call: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Make a call and note its answer, which is given without the time that it took."""
        if call in self._never:
            self.answers[call] = self._never[call]
            return self.answers[call]
        begin = time.monotonic()
        self._call = (call, begin)
        try:
            result = function(*arguments)
            answer = "ok" if result is None else names.plain(call, result)
        except pynvml.NVMLError as error:
            answer = {"error": names.ERRORS.get(error.value, f"NVML_ERROR_{error.value}")}
        except (AttributeError, pynvml.NVMLLibraryMismatchError):  # pynvml, or the driver, is older than the name
            answer = {"error": "NVML_ERROR_FUNCTION_NOT_FOUND"}
        self._call = None
        if error_of(answer) in NEVER:
            self._never[call] = answer
        seconds = round(time.monotonic() - begin, 3)
        self.answers[call] = {"value": answer, "seconds": seconds} if seconds > LONG_SECONDS else answer
        return answer

    def _work(self) -> None:
        while True:
            self._start.acquire()
            try:
                self._job()
            except Exception as error:  # noqa: BLE001  (the lane must live on)
                self.answers["*"] = {"error": f"{type(error).__name__}: {error}"}
            self._done.set()


class Gpu(Lane):
    """The lane of one GPU. Its handle is kept: asking for it may wake a GPU that has no persistence mode."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index, self.handle = index, None
        self.listening = False
        self._identity: dict[str, Any] = {}

    def so_far(self) -> dict[str, Any]:
        """The answers; which GPU it is stays known."""
        return {**self._identity, **super().so_far()}

    def read(self, calls: Sequence[str], handles: Callable[[int], Any]) -> None:
        """Make the calls. The first that finds the GPU unusable answers for the rest."""
        if self.handle is None:
            answer = self.ask("nvmlDeviceGetHandleByIndex", self._take_handle)
            if self.handle is None:
                self.answers["*"] = answer
                return
        self.answers["nvmlDeviceGetHandleByIndex"] = "ok"
        for call in calls:
            try:
                arguments = names.arguments_of(call, handles)
            except AttributeError:
                self.answers[call] = {"error": "NVML_ERROR_FUNCTION_NOT_FOUND"}
                continue
            answer = self.ask(call, names.function_of(call), self.handle, *arguments)
            error = error_of(answer)
            if error in UNUSABLE or (error and call in IDENTITY):  # a handle that no longer fits, too
                self.handle, self.listening = None, False
            if error in UNUSABLE:
                self.answers["*"] = self.answers.pop(call)
                return
            if call in IDENTITY and not error:
                self._identity[call] = answer

    def _take_handle(self) -> None:
        self.handle = pynvml.nvmlDeviceGetHandleByIndex(self.index)


class Nvml:
    """The library, loaded at the first reading."""

    def __init__(self) -> None:
        self._system, self._events = Lane(), Lane()
        self._gpus: list[Gpu] = []
        self._event_set: Any = None

    def read(self, system_calls: Sequence[str], gpu_calls: Sequence[str], seconds: float, xids: bool) -> dict[str, Any]:
        """Make calls about the system and about every GPU, within so many seconds.

        With `xids` also take the Xids since the last time, under the name of the call that waits for them.
        """
        end = time.monotonic() + seconds
        self._system.begin(lambda: self._read_system(system_calls))
        self._system.wait(end)
        facts = self._system.so_far()
        count = facts.get("nvmlDeviceGetCount")
        if "*" in facts or not isinstance(count, int):
            return facts
        self._gpus.extend(Gpu(index) for index in range(len(self._gpus), count))
        facts["gpus"] = self._read_gpus(self._gpus[:count], gpu_calls, end - XIDS_SECONDS if xids else end)
        if xids:
            facts["nvmlEventSetWait"] = self._read_events(self._gpus[:count], end)
        return facts

    def _read_gpus(self, gpus: Sequence[Gpu], calls: Sequence[str], end: float) -> list[dict[str, Any]]:
        """Read the GPUs one after the other; those that are slow are waited for together at the end."""
        for gpu in gpus:
            gpu.begin(functools.partial(gpu.read, calls, lambda peer: self._gpus[peer].handle))
            share = (end - time.monotonic()) / (len(gpus) - gpu.index)
            gpu.wait(time.monotonic() + share)
        for gpu in gpus:
            gpu.wait(end)
        return [gpu.so_far() for gpu in gpus]

    def _read_events(self, gpus: Sequence[Gpu], end: float) -> Any:
        """The Xids that NVML has kept for us, or the error instead."""
        told: list[dict[str, int]] = []
        self._events.begin(lambda: self._read_xids(gpus, told))
        self._events.wait(end)
        answers = self._events.so_far()
        return answers.get("*") or answers.get("nvmlEventSetCreate") or told

    def _read_system(self, calls: Sequence[str]) -> None:
        lane = self._system
        if lane.ask("nvmlInit", self._initialise) == "ok":
            for call in calls:
                lane.ask(call, names.function_of(call))

    def _initialise(self) -> None:
        """Load the library that the other side has chosen, and no other."""
        if pynvml.nvmlLib is None:
            try:
                pynvml.nvmlLib = ctypes.CDLL(os.environ["AIDIAG_NVML_LIBRARY"])
            except (KeyError, OSError):
                raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND) from None
            try:
                pynvml.nvmlInit()
            except pynvml.NVMLError:
                pynvml.nvmlLib = None
                raise

    def _read_xids(self, gpus: Sequence[Gpu], told: list[dict[str, int]]) -> None:
        lane = self._events
        if self._event_set is None:
            lane.ask("nvmlEventSetCreate", self._make_event_set)
            if self._event_set is None:
                return
            lane.answers.pop("nvmlEventSetCreate")
        handles: dict[int, int] = {}
        for gpu in gpus:
            if gpu.handle is None:
                continue
            handles[_address(gpu.handle)] = gpu.index
            if not gpu.listening:
                kind = pynvml.nvmlEventTypeXidCriticalError
                lane.ask("nvmlDeviceRegisterEvents", pynvml.nvmlDeviceRegisterEvents, gpu.handle, kind, self._event_set)
                gpu.listening = True
        for _ in range(XIDS_LIMIT):
            heard: list[Any] = []
            lane.ask(
                "nvmlEventSetWait", lambda heard=heard: heard.append(pynvml.nvmlEventSetWait_v2(self._event_set, 1))
            )
            if not heard:  # the time is over, or it failed
                return
            if heard[0].eventType == pynvml.nvmlEventTypeXidCriticalError:
                told.append({"index": handles.get(_address(heard[0].device), -1), "xid": int(heard[0].eventData)})

    def _make_event_set(self) -> None:
        self._event_set = pynvml.nvmlEventSetCreate()


def error_of(answer: Any) -> str:
    """The name of the error that an answer is, empty where it is none."""
    return str(answer["error"]) if isinstance(answer, dict) and set(answer) == {"error"} else ""


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


VERBS = {"read": Nvml().read}
