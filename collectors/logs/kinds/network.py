"""What happens between processes over sockets, and how NCCL chooses its network."""

from __future__ import annotations

from aidiag.collectors.logs.kinds.kind import kind
from aidiag.collectors.signal import EventKind

KINDS: tuple[EventKind, ...] = (
    kind("rank", "nccl_setting", "An NCCL variable is in force, or was not understood", "name value accepted"),
    kind("rank", "nccl_no_interface", "NCCL found no network interface that its settings allow", "value"),
    kind("rank", "nccl_bootstrap_interface", "NCCL chose its out-of-band interface", "interface address"),
    kind("rank", "nccl_network_devices", "NCCL listed the devices of a network", "network devices interface address"),
    kind("rank", "nccl_network_chosen", "NCCL chose its network", "network"),
    kind("rank", "nccl_version_mismatch", "Ranks run different NCCL versions", "rank_a version_a rank_b version_b"),
    kind(
        "rank",
        "connect_retried",
        "A connection was refused or timed out and is tried again",
        "layer peer port error errno attempt limit",
    ),
    kind("rank", "connect_failed", "A connection could not be made", "layer peer port error errno attempts timeout_ms"),
    kind("rank", "name_not_resolved", "A host name or interface has no address", "layer name error"),
    kind(
        "rank", "peer_connection_closed", "The other end closed a connection", "layer peer port error peer_local_rank"
    ),
    kind(
        "rank", "peer_wait_timeout", "Waiting for a peer took too long", "layer operation timeout_ms error group_rank"
    ),
    kind("rank", "system_call_failed", "A call to the operating system failed", "layer call error"),
)
