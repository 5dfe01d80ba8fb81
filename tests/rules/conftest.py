"""The registry that the built-in rules are checked against, and small worlds for tests of the language."""

from __future__ import annotations

from typing import Any

import pytest

from aidiag.collectors import registry as collectors_registry
from aidiag.collectors.observation import Labels, Sample
from aidiag.collectors.signal import EventKind, Registry, Signal
from aidiag.collectors.subject import Subject
from aidiag.rules.window import Window

LOG_KINDS = {  # what the built-in rules take from the log collector, for a tree that has none
    "rank": {
        "nccl_version": "version",
        "nccl_bootstrap_interface": "interface address",
        "nccl_network_devices": "network devices interface address",
        "nccl_no_interface": "value",
        "nccl_error": "result error version file",
        "connect_retried": "layer peer error attempt limit",
        "connect_failed": "layer peer error attempts",
        "peer_connection_closed": "layer peer port error",
        "peer_wait_timeout": "layer operation timeout_ms",
        "shared_memory_failed": "layer operation path bytes error",
        "collective_timeout": "sequence operation timeout_ms elapsed_ms",
        "store_timeout": "joined expected seconds",
        "worker_failed": "rank exit_code signal pid",
        "loader_worker_killed": "pid signal exit_code",
        "cuda_out_of_memory": "tried_bytes capacity_bytes free_bytes allocated_bytes unallocated_bytes other_pid other_bytes error",
        "python_exception": "type text file line function",
    },
    "host": {
        "container_oom_killed": "container exit_code",
        "task_out_of_memory": "node tasks step kills",
    },
}
SIGNAL = Signal(
    "host_oom_kills_total", "counter", "count", "host", "Processes that the kernel killed to get memory back"
)
PROCESS_FIELDS = {"rank_exited": ("signal_name", "host_pid"), "loader_worker_exited": ("signal_name", "host_pid")}


@pytest.fixture(scope="session")
def registry() -> Registry:
    """Every signal and event kind of the collectors."""
    return full_registry()


def full_registry() -> Registry:
    """The registry of the collectors, completed by what the built-in rules take from those that are not here yet."""
    known = collectors_registry()
    kinds = dict(known.events)
    for name, fields in PROCESS_FIELDS.items():
        kind = kinds[name]
        kinds[name] = EventKind(name, kind.scope, kind.help, tuple(dict.fromkeys((*kind.fields, *fields))))
    for scope, names in LOG_KINDS.items():
        for name, words in names.items():
            kinds.setdefault(name, EventKind(name, scope, "", (*words.split(), "message")))  # type: ignore[arg-type]
    signals = {SIGNAL.name: SIGNAL, **known.signals}
    return Registry.of(signals.values(), kinds.values())


@pytest.fixture(scope="session")
def small() -> Registry:
    """A registry with one signal of each sort."""
    return Registry.of(
        [
            Signal("work_total", "counter", "count", "rank", ""),
            Signal("busy_seconds_total", "counter", "seconds", "rank", ""),
            Signal("wait_seconds_total", "counter", "seconds", "rank", "", labels=("loader",)),
            Signal("phase_seconds_total", "counter", "seconds", "rank", "", labels=("phase", "part")),
            Signal("queue", "gauge", "count", "rank", ""),
            Signal("delay_seconds", "gauge", "seconds", "rank", ""),
            Signal("started_timestamp_seconds", "gauge", "timestamp_seconds", "rank", ""),
            Signal("state", "text", "", "rank", ""),
            Signal("rank_info", "info", "", "rank", "", labels=("gpu",)),
            Signal("errors_total", "counter", "count", "port", "", width_bits=16),
            Signal("memory_bytes", "gauge", "bytes", "host", ""),
            Signal("cores", "gauge", "count", "host", ""),
            Signal("load_ratio", "gauge", "ratio", "gpu", ""),
            Signal("mtu_bytes", "gauge", "bytes", "nic", ""),
            Signal("job_world_size", "gauge", "count", "job", ""),
            Signal("event_kind_watched", "gauge", "count", "host", "", labels=("kind",), max_age_seconds=120.0),
        ],
        [
            EventKind("crash", "rank", "", ("code", "text", "clean")),
            EventKind("kernel_line", "host", "", ("process",)),
        ],
    )


@pytest.fixture
def world(small: Registry) -> World:
    """An empty window over the small registry, with words to fill it."""
    return World(small)


class World:
    """A window and words to fill it."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.window = Window(registry, unix_offset=0.0)

    def feed(
        self, signal: str, subject: Subject, values: Any, *, labels: Labels = (), start: float = 0.0, step: float = 1.0
    ) -> None:
        """One reading for each of `values`; None leaves one out."""
        for number, value in enumerate(values):
            if value is not None:
                self.window.add(Sample(signal, subject, value, start + number * step, labels))
