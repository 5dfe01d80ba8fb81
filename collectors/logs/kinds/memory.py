"""Memory, file descriptors and loader workers."""

from __future__ import annotations

from aidiag.collectors.logs.kinds.kind import kind
from aidiag.collectors.signal import EventKind

KINDS: tuple[EventKind, ...] = (
    kind(
        "rank",
        "cuda_out_of_memory",
        "GPU memory ran out",
        "gpu tried_bytes capacity_bytes free_bytes allocated_bytes reserved_bytes unallocated_bytes process_bytes allowed_bytes other_pid other_bytes layer error",
    ),
    kind("rank", "loader_worker_killed", "A loader worker process died", "pid pids signal exit_code"),
    kind("rank", "loader_timeout", "A loader gave no batch in its time", "seconds"),
    kind("rank", "open_files_exhausted", "A process has no file descriptor left", "layer error"),
    kind("host", "container_oom_killed", "A container was killed at its memory limit", "container exit_code"),
    kind("host", "task_out_of_memory", "The scheduler saw tasks killed at their memory limit", "node tasks step kills"),
    kind("rank", "duplicate_gpu", "Two ranks use one GPU", "rank_a rank_b pci_bus_id"),
    kind("rank", "cuda_error", "A CUDA call failed", "layer error code"),
)
