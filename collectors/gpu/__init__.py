"""GPUs through NVML, asked in a helper process."""

from aidiag.collectors.gpu.collector import GpuCollector
from aidiag.collectors.gpu.signals import EVENTS, SIGNALS

__all__ = ["EVENTS", "SIGNALS", "GpuCollector"]
