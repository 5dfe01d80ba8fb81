"""The processes of the ranks: life and death, CPU, memory, cgroup limits, loader workers."""

from aidiag.collectors.process.collector import EVENTS, SIGNALS, ProcessCollector

__all__ = ["EVENTS", "SIGNALS", "ProcessCollector"]
