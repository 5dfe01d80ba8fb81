"""RDMA ports, and which of them the job uses."""

from aidiag.collectors.rdma.collector import RdmaCollector

__all__ = ["RdmaCollector"]
