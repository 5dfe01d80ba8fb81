"""Collectors: one module a source. They read and parse, and judge nothing.

`COLLECTORS` is the one table. Adding a source is one file here and one line in it.
"""

from __future__ import annotations

from collections.abc import Mapping

from aidiag.collectors.collector import Collector
from aidiag.collectors.gpu import GpuCollector
from aidiag.collectors.host import HostCollector
from aidiag.collectors.kmsg import KmsgCollector
from aidiag.collectors.logs import LogsCollector
from aidiag.collectors.network import NetworkCollector
from aidiag.collectors.peers import PeersCollector
from aidiag.collectors.process import ProcessCollector
from aidiag.collectors.rdma import RdmaCollector
from aidiag.collectors.runner import SIGNALS as RUNNER_SIGNALS
from aidiag.collectors.signal import Registry
from aidiag.collectors.trainer import TrainerCollector

COLLECTORS: Mapping[str, type[Collector]] = {
    collector.name: collector
    for collector in (
        GpuCollector,
        HostCollector,
        KmsgCollector,
        LogsCollector,
        NetworkCollector,
        PeersCollector,
        ProcessCollector,
        RdmaCollector,
        TrainerCollector,
    )
}


def registry() -> Registry:
    """Every signal and event kind that a collector may emit, and those of the runner itself."""
    return Registry.of(
        [*RUNNER_SIGNALS, *(signal for collector in COLLECTORS.values() for signal in collector.signals)],
        [kind for collector in COLLECTORS.values() for kind in collector.events],
    )
