"""Memory of the GPU as torch's allocator counts it: read about once a second, never before the trainer uses CUDA."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import layout
from .hook import Hook

if TYPE_CHECKING:
    from ..timeline import Timeline

_COUNTERS = (
    "allocated_bytes.all.current",
    "reserved_bytes.all.current",
    "allocated_bytes.all.peak",
    "inactive_split_bytes.all.current",
    "num_alloc_retries",
    "num_ooms",
)
_OOM_QUIET_NS = 1_000_000_000
"""The observer is called several times for one failure (retries): within this time only the first is noted."""


class MemoryHook(Hook):
    """Reads the counters of the current device and sees the allocator run out of memory.

    The counters lie in host memory: reading them neither waits for the GPU nor makes a CUDA context.
    """

    name = "memory"

    def __init__(self, timeline: Timeline, torch: Any) -> None:
        super().__init__(timeline)
        self._cuda = getattr(torch, "cuda", None)
        self._core = getattr(torch, "_C", None)
        self._observes = False
        self._last_oom = 0

    def read(self) -> bool:
        """Take the counters into the next state. False while the trainer has not used CUDA."""
        if not self.live:
            return False
        try:
            cuda = self._cuda
            if cuda is None or not cuda.is_initialized() or cuda.is_current_stream_capturing():
                return False
            counters = cuda.memory_stats()
            values = [int(counters.get(name, layout.UNKNOWN)) for name in _COUNTERS]
            self.timeline.memory = tuple(values)
            if not self._observes:
                self._observes = True
                attach = getattr(self._core, "_cuda_attach_out_of_memory_observer", None)
                if attach is not None:
                    attach(self._ran_out)
            return True
        except Exception as error:
            self.failed(error)
            return False

    def _ran_out(self, device: int, requested: int, device_total: int, device_free: int) -> None:
        """The allocator could not serve a request: called from within it, so nothing is asked of it here."""
        if not self.live:
            return
        try:
            now = self.timeline.clock()
            if now - self._last_oom < _OOM_QUIET_NS:
                return
            self._last_oom = now
            fields = {
                "device": device,
                "requested_bytes": requested,
                "device_total_bytes": device_total,
                "device_free_bytes": device_free,
                "step": self.timeline.steps + 1,
            }
            self.timeline.writer.note("cuda_out_of_memory", fields, now)
            self.timeline.write_state(now)
        except Exception as error:
            self.failed(error)


def gpu_of(torch: Any, environ: Mapping[str, str]) -> tuple[str, str]:
    """Index and UUID of the GPU that this process computes on, as far as they can be told; empty texts otherwise.

    CUDA counts the visible devices; the index that the rest of the host uses stands in CUDA_VISIBLE_DEVICES.
    """
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return "", ""
    device = cuda.current_device()
    uuid = str(getattr(cuda.get_device_properties(device), "uuid", ""))
    if uuid and not uuid.startswith(("GPU-", "MIG-")):
        uuid = f"GPU-{uuid}"
    visible = [part.strip() for part in environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part.strip()]
    if not visible:
        return str(device), uuid
    name = visible[device] if device < len(visible) else ""
    return (name if name.isdigit() else ""), uuid or (name if name.startswith(("GPU-", "MIG-")) else "")


def torch_module() -> Any:
    """The torch that the trainer has loaded, None when it has not."""
    return sys.modules.get("torch")
