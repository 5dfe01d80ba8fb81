"""The host: CPU, memory, /dev/shm, disks, limits."""

from aidiag.collectors.host.collector import HostCollector

__all__ = ["HostCollector"]
