"""Which RDMA ports the job's settings include."""

from __future__ import annotations

from dataclasses import dataclass

from aidiag.collectors.device_filter import DeviceFilter, parse_nccl, parse_ucx
from aidiag.collectors.job_settings import job_settings
from aidiag.collectors.node import Node


@dataclass(frozen=True, slots=True)
class PortChoice:
    """What NCCL's and UCX's settings say of ports, None where they say nothing; `reason` is why nobody knows."""

    nccl: DeviceFilter | None
    ucx: DeviceFilter | None
    reason: str = ""

    def uses(self, device: str, port: int) -> bool | None:
        """Whether the job may use a port, None where that is not known."""
        said = [chosen.includes(device, port) for chosen in (self.nccl, self.ucx) if chosen]
        if True in said:
            return True
        return False if self.nccl else None


def port_choice(node: Node) -> PortChoice:
    """The choice of the job on a node."""
    try:
        settings = job_settings(node)
    except OSError as error:
        return PortChoice(None, None, f"the environment of the job: {error.strerror}")
    nccl = parse_nccl(settings["NCCL_IB_HCA"]) if settings.get("NCCL_IB_HCA") else None
    if settings.get("NCCL_IB_DISABLE", "0") not in ("", "0") or settings.get("NCCL_NET") == "Socket":
        nccl = DeviceFilter((), exclude=True)
    ucx = parse_ucx(settings["UCX_NET_DEVICES"]) if settings.get("UCX_NET_DEVICES") else None
    return PortChoice(nccl, ucx, "NCCL_IB_HCA is not set: NCCL takes every active port")
