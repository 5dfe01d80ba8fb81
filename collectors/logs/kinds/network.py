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
    kind("rank", "nccl_plugin", "What became of a plugin of NCCL", "name library state error"),
    kind(
        "rank", "ofi_provider", "The provider that the OFI plugin chose, or that it found none", "provider fabric nics"
    ),
    kind("host", "nccl_library", "An NCCL library that is installed or loaded", "version cuda_version path source"),
    kind("host", "cuda_toolkit", "The CUDA that a program was built with", "version"),
    kind("rank", "symbol_missing", "A library lacks a symbol that another was built against", "symbol library"),
    kind("rank", "nccl_record_mismatch", "A peer speaks another form of NCCL's protocol", "detail got expected"),
    kind(
        "rank",
        "nccl_settings_differ",
        "NCCL saw that ranks differ in a setting or in what they see",
        "what ranks detail",
    ),
    kind("rank", "rendezvous_address", "The address that the launcher gave to the ranks", "address port nodes"),
    kind("host", "name_lookup", "What a host's name leads to", "name address"),
    kind("host", "interface_address", "An address of an interface of a host", "interface address state"),
    kind("host", "reachability", "Whether a test reached another host", "how reached peer port error"),
    kind(
        "host",
        "path_measured",
        "How a path between hosts was measured to be: the packets that were lost or sent again, and its rate",
        "how lost_percent resent rate_mbits peer",
    ),
    kind("host", "link_speed", "The speed of a network interface", "mbits"),
    kind("host", "packets_dropped", "A host drops packets that it should pass on", "error interface"),
    kind("host", "packet_filter", "A packet filter is in force on a host or in its network", "tool verdict detail"),
    kind("host", "command_answer", "What a command answered", "command answer"),
    kind("host", "rdma_hardware", "A sign that a host has RDMA devices, or that a program saw them", "sign device"),
    kind("job", "slow_across_hosts", "Several hosts were seen to be no faster than one", "seen"),
    kind("host", "setting_helped", "What somebody saw to help", "name value"),
)
