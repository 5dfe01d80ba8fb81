"""How far the start-up of a communicator got."""

from __future__ import annotations

from aidiag.collectors.logs.kinds.kind import COMMUNICATOR, kind
from aidiag.collectors.signal import EventKind

KINDS: tuple[EventKind, ...] = (
    kind("rank", "nccl_version", "NCCL said its version", "version cuda_version"),
    kind("rank", "nccl_init_started", "A rank entered the start-up of a communicator", COMMUNICATOR),
    kind(
        "rank",
        "nccl_progress",
        "A step of the start-up of a communicator is done",
        f"step {COMMUNICATOR} nodes local_ranks",
    ),
    kind("rank", "nccl_channel", "A channel to a peer is set up", "channel comm_rank comm_peer transport"),
    kind(
        "rank",
        "nccl_channel_counts",
        "How many channels a communicator has",
        "collective collnet nvls p2p p2p_per_peer",
    ),
    kind("rank", "nccl_init_completed", "A rank finished the start-up of a communicator", COMMUNICATOR),
    kind("rank", "nccl_comm_ended", "A communicator was destroyed or aborted", f"how edge {COMMUNICATOR}"),
)
