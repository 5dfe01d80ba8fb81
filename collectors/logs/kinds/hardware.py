"""GPUs, the paths between them, and the driver: what programs, the kernel and node commands tell of them."""

from __future__ import annotations

from aidiag.collectors.logs.kinds.kind import kind
from aidiag.collectors.signal import EventKind

KINDS: tuple[EventKind, ...] = (
    kind("rank", "gpu_memory_error", "A GPU has an uncorrectable memory error", "error count device detail group_rank"),
    kind(
        "rank",
        "gpu_link_error",
        "A path between GPUs (NVLink, NVSwitch) failed",
        "error link count device detail group_rank",
    ),
    kind("rank", "gpu_not_answering", "A GPU or its driver no longer answers", "error device detail"),
    kind("rank", "gpu_peer_failed", "Memory of another GPU could not be reached, or arrived wrong", "error device"),
    kind("rank", "gpu_system_not_ready", "CUDA waits for the fabric of the node to be set up", "error code"),
    kind("rank", "gpu_multicast_failed", "NVLink multicast (NVLS, MNNVL) could not be set up", "error bytes code"),
    kind("host", "gpu_peer_forced", "The driver was told to offer peer access that it would not offer", "setting"),
    kind("job", "hang_told", "Somebody saw that the job hangs", "detail"),
    kind("rank", "engine_stalled", "An inference engine waits for its workers", "seconds"),
    kind("rank", "gpu_place", "Which rank uses which GPU of which host", "rank pid host device pci_bus_id"),
    kind("host", "gpu_driver", "Which driver a host has", "version cuda_version"),
    kind("host", "fabric_manager", "Fabric Manager's state and version", "state version driver_version"),
    kind("host", "nvlink_links", "How many NVLinks of a GPU are active", "gpu links inactive"),
    kind("host", "p2p_pair", "Whether the driver allows peer access between two GPUs", "verdict"),
    kind("host", "iommu_fault", "The IOMMU stopped a transfer of a device", "driver device address"),
    kind("host", "iommu_setting", "How the IOMMU is set", "mode"),
    kind("host", "pcie_acs", "What PCIe access control a bridge has on", "flags count"),
    kind(
        "host",
        "pcie_link",
        "The speed and width of a PCIe link, and what it is capable of",
        "device speed width capable_speed capable_width state",
    ),
    kind("host", "gpu_slowdown", "A GPU is held below its clock, and why", "reason device"),
    kind(
        "host",
        "gpu_reading",
        "A row of what nvidia-smi was asked",
        "index name driver_version temperature clock clock_max link_gen link_gen_max link_width link_width_max "
        "utilization slowdown link_state ecc_uncorrected device",
    ),
    kind("host", "shm_size", "How large /dev/shm is, and how full", "size used_percent"),
    kind("host", "cure_told", "What a person found to help, or not to help", "cure helped detail"),
)
