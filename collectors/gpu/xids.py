"""The event of an Xid, which both NVML and the kernel log tell, and which GPU of a host a PCI address is."""

from __future__ import annotations

from aidiag.collectors.node import Node
from aidiag.collectors.signal import EventKind
from aidiag.collectors.subject import Subject, gpu

XID = EventKind(
    "xid",
    "gpu",
    "The driver reported an Xid. Told once: by the kernel log where it can be read, else by NVML, without pid and detail",
    ("xid", "pci_bus_id", "detail", "pid", "process"),
)

DRIVER_GPUS = "/proc/driver/nvidia/gpus"


def gpu_at(node: Node, address: str) -> Subject:
    """The GPU at a PCI address such as `0000:c3:00.0`.

    NVML numbers the GPUs that the driver knows in the order of their addresses; one that is lost keeps its place. A
    GPU that the driver does not list (none is listed in some containers) is named by its address.
    """
    try:
        addresses = sorted(name.lower() for name in node.entries(DRIVER_GPUS))
    except OSError:
        addresses = []
    if address in addresses:
        return gpu(addresses.index(address), host=node.name)
    return Subject("gpu", address, host=node.name)
