"""Steps, phases, loaders and memory of the ranks, from the records that the trainer shim keeps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from aidiag.collectors.collector import Context
from aidiag.collectors.observation import Observation
from aidiag.collectors.signal import EventKind, Signal

SIGNALS: tuple[Signal, ...] = (
    # identity
    Signal("rank_info", "info", "", "rank", "Who a rank is", labels=("local_rank", "gpu", "framework", "launcher")),
    Signal("rank_expected", "gauge", "count", "rank", "1 for each rank that should live on this host"),
    Signal("rank_up", "gauge", "count", "rank", "1 while the process of the rank lives, 0 after it ended"),
    Signal(
        "rank_start_timestamp_seconds", "gauge", "timestamp_seconds", "rank", "When the process of the rank started"
    ),
    Signal("rank_heartbeat_timestamp_seconds", "gauge", "timestamp_seconds", "rank", "Last sign of life of the shim"),
    Signal(
        "rank_state_code",
        "gauge",
        "code",
        "rank",
        "0 unknown, 1 starting, 2 rendezvous, 3 group init, 4 training, 5 checkpoint, 6 evaluation, 7 finished, 8 failed",
    ),
    Signal(
        "rank_shim_attached", "gauge", "count", "rank", "1 when the shim has attached in the rank, 0 when it only armed"
    ),
    Signal("rank_restarts_total", "counter", "count", "rank", "Restarts of the rank in this job"),
    Signal("job_world_size", "gauge", "count", "job", "Ranks that the job says it has"),
    Signal("job_ranks_seen", "gauge", "count", "job", "Ranks of which a sign has been seen, on all hosts in view"),
    Signal("job_ranks_attached", "gauge", "count", "job", "Ranks in which the shim has attached, on all hosts in view"),
    # steps
    Signal("steps_total", "counter", "count", "rank", "Optimizer steps done"),
    Signal("steps_skipped_total", "counter", "count", "rank", "Optimizer steps that the gradient scaler skipped"),
    Signal("step_seconds_total", "counter", "seconds", "rank", "Wall time inside steps"),
    Signal(
        "step_phase_seconds_total", "counter", "seconds", "rank", "Wall time inside steps by phase", labels=("phase",)
    ),
    Signal("step_last_seconds", "gauge", "seconds", "rank", "Wall time of the last step"),
    Signal("step_p99_seconds", "gauge", "seconds", "rank", "99th percentile of the recorded last steps"),
    Signal("step_last_end_timestamp_seconds", "gauge", "timestamp_seconds", "rank", "When the last step ended"),
    Signal(
        "step_idle_seconds",
        "gauge",
        "seconds",
        "rank",
        "Time since the last step ended, outside checkpoint and evaluation",
    ),
    Signal("batches_total", "counter", "count", "rank", "Batches that the training loaders gave"),
    Signal("loss", "gauge", "ratio", "rank", "Last loss that the trainer told"),
    Signal("loss_scale", "gauge", "ratio", "rank", "Scale of the gradient scaler"),
    # loaders
    Signal(
        "loader_wait_seconds_total",
        "counter",
        "seconds",
        "rank",
        "Time that the step waited for a loader",
        labels=("loader",),
    ),
    Signal("loader_batches_total", "counter", "count", "rank", "Batches that a loader gave", labels=("loader",)),
    Signal(
        "loader_workers",
        "gauge",
        "count",
        "rank",
        "Worker processes of a loader, 0 when it loads in the rank itself",
        labels=("loader",),
    ),
    Signal(
        "loader_queue_batches",
        "gauge",
        "count",
        "rank",
        "Batches that lay ready when the last one was taken",
        labels=("loader",),
    ),
    # memory (CUDA builds)
    Signal("torch_memory_allocated_bytes", "gauge", "bytes", "rank", "Memory that tensors hold on the rank's GPU"),
    Signal("torch_memory_reserved_bytes", "gauge", "bytes", "rank", "Memory that the caching allocator holds"),
    Signal("torch_memory_peak_bytes", "gauge", "bytes", "rank", "Highest memory that tensors held"),
    # the shim itself
    Signal("shim_hook_errors_total", "counter", "count", "rank", "Errors caught inside the shim's hooks"),
    Signal("shim_overhead_seconds_total", "counter", "seconds", "rank", "Time that the shim's hooks took"),
)

EVENTS: tuple[EventKind, ...] = (
    EventKind("rank_raised", "rank", "An exception left the training loop of a rank", ("type", "message")),
    EventKind("shim_off", "rank", "The shim switched itself off in a rank", ("reason",)),
)


class TrainerCollector:
    """Steps, phases, loaders and memory of the ranks, from the records that the trainer shim keeps."""

    name: ClassVar[str] = "trainer"
    interval_seconds: ClassVar[float] = 1.0
    signals: ClassVar[tuple[Signal, ...]] = SIGNALS
    events: ClassVar[tuple[EventKind, ...]] = EVENTS

    def __init__(self, context: Context) -> None:
        self._context = context

    def collect(self) -> Iterable[Observation]:
        """Read the source once."""
        return ()
