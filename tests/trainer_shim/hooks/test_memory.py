"""GPU memory: read once CUDA is in use, and never so that the GPU is waited for. CUDA is played by a stand-in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from aidiag.trainer_shim.hooks.memory import MemoryHook, gpu_of
from aidiag.trainer_shim.timeline import TICK_NS

COUNTERS = {
    "allocated_bytes.all.current": 100,
    "reserved_bytes.all.current": 200,
    "allocated_bytes.all.peak": 150,
    "inactive_split_bytes.all.current": 30,
    "num_alloc_retries": 2,
    "num_ooms": 1,
}


class Cuda:
    """As much of torch.cuda as the shim may touch: anything else is an error."""

    def __init__(self, ready: bool = True, capturing: bool = False) -> None:
        self._ready = ready
        self._capturing = capturing

    def is_initialized(self) -> bool:
        """Whether the trainer has used CUDA."""
        return self._ready

    def is_current_stream_capturing(self) -> bool:
        """Whether a graph is being captured."""
        return self._capturing

    def memory_stats(self) -> dict[str, int]:
        """The allocator's counters."""
        return dict(COUNTERS)

    def current_device(self) -> int:
        """The device in use."""
        return 1

    def get_device_properties(self, device: int) -> Any:
        """What a device is."""
        return SimpleNamespace(uuid=f"8f6bd0e9-{device}")


def torch_with(cuda: Cuda, observers: list[Any]) -> Any:
    """A torch with CUDA."""
    core = SimpleNamespace(_cuda_attach_out_of_memory_observer=observers.append)
    return SimpleNamespace(cuda=cuda, _C=core)


def test_memory_is_told(trainer: Any) -> None:
    """The allocator's counters come with the next state."""
    hook = MemoryHook(trainer.timeline, torch_with(Cuda(), []))
    assert hook.read()
    state = trainer.record().state

    assert (100, 200, 150, 30, 2, 1) == (
        state.memory_allocated_bytes,
        state.memory_reserved_bytes,
        state.memory_peak_bytes,
        state.memory_inactive_split_bytes,
        state.memory_alloc_retries,
        state.memory_ooms,
    )


@pytest.mark.parametrize("cuda", [Cuda(ready=False), Cuda(capturing=True)], ids=["unused", "capturing"])
def test_cuda_is_left_alone(trainer: Any, cuda: Cuda) -> None:
    """Before CUDA is in use, and while a graph is captured, nothing is asked; unknown is not zero."""
    observers: list[Any] = []
    assert not MemoryHook(trainer.timeline, torch_with(cuda, observers)).read()

    assert trainer.record().state.memory_allocated_bytes is None
    assert not observers


def test_running_out_of_memory_is_noted_once(trainer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The allocator's observer is called for every retry of one failure: one note a failure."""
    observers: list[Any] = []
    hook = MemoryHook(trainer.timeline, torch_with(Cuda(), observers))
    hook.read()
    hook.read()
    (observer,) = observers
    for _ in range(3):
        observer(0, 4096, 80_000, 100)
    monkeypatch.setattr(hook, "_last_oom", hook._last_oom - TICK_NS)
    observer(0, 8192, 80_000, 100)

    assert [4096, 8192] == [note.fields["requested_bytes"] for note in trainer.record().notes]


def test_a_build_without_an_observer(trainer: Any) -> None:
    """A torch that has no such observer is read all the same."""
    assert MemoryHook(trainer.timeline, SimpleNamespace(cuda=Cuda(), _C=SimpleNamespace())).read()
    assert not MemoryHook(trainer.timeline, SimpleNamespace()).read()


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, ("1", "GPU-8f6bd0e9-1")),
        ("4,6", ("6", "GPU-8f6bd0e9-1")),
        ("GPU-a,GPU-b", ("", "GPU-8f6bd0e9-1")),
        ("4", ("", "GPU-8f6bd0e9-1")),
    ],
)
def test_which_gpu(visible: str | None, expected: tuple[str, str]) -> None:
    """The index of a GPU is that of the host, through CUDA_VISIBLE_DEVICES; what cannot be told is not."""
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}

    assert expected == gpu_of(torch_with(Cuda(), []), environ)
    assert ("", "") == gpu_of(torch_with(Cuda(ready=False), []), environ)
