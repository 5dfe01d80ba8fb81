"""RDMA, GPUs and the node: what adapters, drivers and the kernel tell of hardware."""

from __future__ import annotations

from aidiag.collectors.logs.kinds.kind import kind
from aidiag.collectors.signal import EventKind

KINDS: tuple[EventKind, ...] = (
    kind(
        "rank",
        "rdma_completion_error",
        "An RDMA work request failed",
        "peer status status_name opcode vendor_error device request detail",
    ),
    kind("rank", "rdma_call_failed", "A verbs call failed", "call error errno detail"),
    kind("rank", "rdma_device_event", "An RDMA device reported an event", "device port event fatal"),
    kind("rank", "shared_memory_failed", "Shared memory could not be had", "layer operation path bytes error errno"),
    kind("rank", "cuda_driver_unusable", "The CUDA driver is missing, too old or of another version", "error version"),
)
