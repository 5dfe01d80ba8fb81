"""RDMA, GPUs and the node: what adapters, drivers and the kernel tell of hardware."""

from __future__ import annotations

from aidiag.collectors.logs.kinds.kind import kind
from aidiag.collectors.signal import EventKind

KINDS: tuple[EventKind, ...] = (
    kind(
        "rank",
        "rdma_completion_error",
        "An RDMA work request failed",
        "peer status status_name opcode vendor_error device request detail layer",
    ),
    kind("rank", "rdma_call_failed", "A verbs call failed", "call error errno detail device layer"),
    kind("rank", "rdma_device_event", "An RDMA device reported an event", "device port reported fatal"),
    kind("rank", "shared_memory_failed", "Shared memory could not be had", "layer operation path bytes error errno"),
    kind("rank", "cuda_driver_unusable", "The CUDA driver is missing, too old or of another version", "error version"),
    kind("rank", "gpudirect", "Whether NCCL lets a NIC read GPU memory (`state` is on or off)", "state device reason"),
    kind("rank", "rdma_networks_mixed", "Devices of two kinds of networks were to be connected", "detail"),
    kind("host", "rdma_port", "What a command said of an RDMA port", "device port state physical_state link mtu"),
    kind("host", "rdma_mtu", "The MTU of an RDMA port or of an interface, as told of a host", "mtu device"),
    kind("host", "interface_mtu", "The MTU of an interface that is up", "interface mtu"),
    kind("host", "mtus_noted", "Two MTUs along a path, as noted", "first second"),
    kind("job", "rdma_setting_helped", "Somebody saw that a setting of RDMA helped", "name value"),
    kind("job", "gpu_driven_network", "Kernels on the GPU drive the NIC (GIN, IBGDA)", "detail"),
    kind("host", "packet_too_big", "A packet did not fit through a path", "mtu"),
    kind(
        "host",
        "gid_entry",
        "An entry of the GID table of an RDMA port",
        "device port index gid scope in_use ipv4 version interface",
    ),
    kind(
        "job",
        "bandwidth_collapsed",
        "In a test a larger size had a fraction of the bandwidth (GB/s) of a smaller one",
        "size bandwidth best",
    ),
    kind("host", "rdma_counter", "A counter of an RDMA port or of its interface", "name value device"),
    kind("host", "flow_control", "How a NIC or switch handles RoCE traffic (`state` is on or off)", "feature state"),
    kind("host", "peer_memory_module", "The module that lets NICs read GPU memory", "module state error"),
    kind("host", "locked_memory", "The limit of locked memory (`limited` is yes or no)", "limited kbytes bytes"),
    kind("host", "link_changed", "The link of a network port went down or came up", "interface state detail"),
    kind("job", "nic_network", "A NIC was said to be on another network than its peers", "device detail"),
)
