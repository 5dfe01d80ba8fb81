"""Collectives: timeouts, states, mismatches, results."""

from __future__ import annotations

from aidiag.collectors.logs.kinds.kind import kind
from aidiag.collectors.signal import EventKind

KINDS: tuple[EventKind, ...] = (
    kind("rank", "nccl_warning", "NCCL warned of something that the catalogue does not know", "text file"),
    kind("rank", "nccl_error", "An NCCL call failed", "result error version file"),
    kind(
        "rank",
        "collective_timeout",
        "A collective did not finish in its time",
        "rank group_rank group sequence operation shape numel_in numel_out timeout_ms elapsed_ms",
    ),
    kind(
        "rank",
        "collective_state",
        "What a rank had enqueued and completed when a collective failed",
        "rank group_rank group sequence last_enqueued last_completed told_by",
    ),
    kind(
        "rank",
        "collective_mismatch",
        "Ranks run different collectives",
        "rank_a collective_a rank_b collective_b detail",
    ),
    kind(
        "rank",
        "collective_desync",
        "torch names the ranks that did not come to a collective",
        "ranks sequence next_sequence",
    ),
    kind("rank", "collective_snapshot", "What ranks were in when a collective failed", "ranks operation"),
    kind("rank", "inputs_uneven_said", "A program says that ranks have different numbers of batches", "detail"),
    kind(
        "rank", "collective_stalled", "Some ranks did not submit a tensor that others wait for", "seconds ranks tensor"
    ),
    kind(
        "rank",
        "watchdog_stuck",
        "torch's watchdog thread does not get on: a CUDA or NCCL call or the GIL blocks",
        "seconds",
    ),
    kind(
        "rank",
        "process_group_aborted",
        "A process takes itself down after a failed collective",
        "error rank group_rank group",
    ),
    kind("rank", "loss_scale_overflow", "The loss scale overflowed", "scale new_scale final"),
)
