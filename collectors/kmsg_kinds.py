"""What lines of the kernel log can tell, whether they are read from the kernel or stand in a log."""

from __future__ import annotations

from aidiag.collectors.gpu.xids import XID
from aidiag.collectors.signal import EventKind

GPU_OFF_BUS = EventKind(
    "gpu_off_bus", "gpu", "A GPU no longer answers; stands beside Xid 79 or alone", ("pci_bus_id", "detail")
)

HOST_OOM_KILL = EventKind(
    "host_oom_kill",
    "host",
    "The kernel killed a process to get memory back; limit_of is cgroup, host or other: whose memory was used up. "
    "told_by is kernel (its own log, now: of any process of the host) or log (one that was given for the job)",
    ("pid", "process", "cgroup", "limit_of", "resident_bytes", "told_by"),
)

SXID = EventKind(
    "sxid", "host", "The driver reported an SXid of an NVSwitch", ("sxid", "switch", "pci_bus_id", "detail")
)

EVENTS: tuple[EventKind, ...] = (
    XID,
    GPU_OFF_BUS,
    SXID,
    HOST_OOM_KILL,
    EventKind("nic_link_down", "nic", "A network interface lost its link", ("detail",)),
    EventKind("nic_link_up", "nic", "A network interface got its link", ("detail",)),
    EventKind(
        "nic_trouble",
        "nic",
        "A network card reports a trouble of its own: port_module_error, health_compromised, firmware_error, "
        "command_timeout, insufficient_power, high_temperature or transmit_timeout",
        ("problem", "detail"),
    ),
    EventKind(
        "kernel_lines_lost", "host", "Lines of the kernel log were overwritten before they were read", ("lines",)
    ),
)
