"""Network interfaces, and which of them the job uses."""

from aidiag.collectors.network.collector import NetworkCollector

__all__ = ["NetworkCollector"]
