"""GPUs through NVML, asked in a helper process."""

from aidiag.collectors.gpu.collector import EVENTS, SIGNALS, GpuCollector

__all__ = ["EVENTS", "SIGNALS", "GpuCollector"]
