"""An invented fleet whose true values are known: what its exporters say at any time, and as a file for Prometheus.

Job `train`: ranks 0 and 1 on node-a, ranks 2 and 3 on node-b, one step each 0.5 s; rank 3 waits for its loader, so the
others wait for rank 3. Job `other` runs on node-c with very different numbers, none of which may show in a panel of
`train`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import Metric

from aidiag.collectors import registry
from aidiag.collectors.observation import Labels, Sample, labels
from aidiag.collectors.subject import Subject, gpu, host, nic, port, rank
from aidiag.collectors.subject import job as job_subject
from aidiag.diagnose.report.model import JobFacts
from aidiag.diagnose.sidecar.exporter import Exporter
from aidiag.diagnose.sidecar.snapshot import Snapshot
from aidiag.rules.finding import Culprit, Finding, Severity

JOB = "train"
START = 1_699_999_980  # a whole minute, so that subqueries land on scrapes
SCRAPE_SECONDS = 15
SECONDS = 600
END = START + SECONDS
GIB = 1 << 30

STEPS_PER_SECOND = 2.0
PHASES: Mapping[str, tuple[float, float]] = {  # seconds a step: of ranks 0-2, of rank 3
    "data_wait": (0.01, 0.20),
    "forward": (0.10, 0.10),
    "backward": (0.15, 0.15),
    "optimizer": (0.02, 0.02),
    "comm_late_peer": (0.18, 0.0),
    "comm_wire": (0.02, 0.02),
    "other": (0.01, 0.01),
}
FINDING_BEGINS = 300
FRESH_FINDING_BEGINS = SECONDS - 30


@dataclass(frozen=True)
class Series:
    """One series: its value at the start and how much it grows each second."""

    signal: str
    subject: Subject
    start: float
    growth: float = 0.0
    labels: Labels = ()


def finding(
    rule: str, severity: Severity, culprit: Culprit | None, *, cause: str, explained_by: str | None = None
) -> Finding:
    """A finding in which only what /metrics shows is filled in. One about a host or a card belongs to no job."""
    job = "" if culprit is not None and culprit.kind in ("host", "nic") else JOB
    return Finding(
        f"{rule}/{job}", cause, rule, severity, 1.0, rule, rule, culprit, None, None, (), "", (), (), explained_by
    )


SLOW_LOADER = finding(
    "input_bound",
    "warning",
    Culprit("rank", ranks=(3,), hosts=("node-b",), targets=("train",)),
    cause="util_input_bound",
)
REMARK = finding("cold_cache", "info", None, cause="cold_cache")
FULL_DISK = finding("disk_full", "warning", Culprit("host", hosts=("node-a",)), cause="disk_full")
ELSEWHERE = finding("disk_full", "warning", Culprit("host", hosts=("node-c",)), cause="disk_full")
SMALL_MTU = finding("mtu_host", "critical", Culprit("nic", hosts=("node-b",), targets=("eth0",)), cause="mtu_mismatch")
IDLE_GPU = finding(
    "low_gpu_utilization",
    "warning",
    Culprit("gpu", hosts=("node-b",), targets=("gpu1",)),
    cause="util_low",
    explained_by=SLOW_LOADER.id,
)


def rank_series(number: int) -> Iterator[Series]:
    """What rank `number` of the job shows."""
    node = "node-a" if number < 2 else "node-b"
    subject = rank(number, host=node, job=JOB)
    sick = number == 3
    step_seconds = sum(times[sick] for times in PHASES.values())

    def series(signal: str, start: float, growth: float = 0.0, **extra: str) -> Series:
        return Series(signal, subject, start, growth, labels(**extra))

    yield series("rank_info", 1, local_rank=str(number % 2), gpu=str(number % 2), framework="torch", launcher="slurm")
    yield series("rank_up", 1)
    yield series("rank_state_code", 5 if number == 2 else 4)
    yield series("rank_shim_attached", 0 if sick else 1)
    yield series("rank_restarts_total", 1 if number == 1 else 0)
    yield series("steps_total", 1000, STEPS_PER_SECOND)
    yield series("step_seconds_total", 500, STEPS_PER_SECOND * step_seconds)
    yield series("step_last_end_timestamp_seconds", START - 3 - number, 1)
    for phase, times in PHASES.items():
        yield series("step_phase_seconds_total", 100, STEPS_PER_SECOND * times[sick], phase=phase)
    wait = PHASES["data_wait"][sick]
    yield series("loader_wait_seconds_total", 100, STEPS_PER_SECOND * wait, loader="images")
    yield series("loader_queue_batches", 0 if sick else 2 + number, loader="images")
    yield series("loader_workers", 4, loader="images")
    yield series("rank_loader_workers_alive", 3 if number == 2 else 4)
    yield series("torch_memory_allocated_bytes", (number + 1) * GIB)
    yield series("torch_memory_reserved_bytes", (number + 2) * GIB)
    yield series("torch_memory_peak_bytes", (number + 3) * GIB)
    yield series("rank_resident_memory_bytes", (number + 4) * GIB)
    yield series("rank_memory_used_bytes", (number + 1) * 2 * GIB)
    yield series("rank_memory_limit_bytes", 10 * GIB)
    yield series("rank_cpu_seconds_total", 50, number + 1)
    yield series("rank_cpu_throttled_seconds_total", 5, (0, 0, 0.1, 0.25)[number])
    yield series("rank_open_files", 100 * (number + 1))
    yield series("rank_open_files_limit", 1000)
    yield series("rank_oom_kills_total", 2 if sick else 0)
    yield series("shim_overhead_seconds_total", 1, STEPS_PER_SECOND * 1e-6 * (number + 5))


def node_series(node: str) -> Iterator[Series]:
    """What the host `node` of the job shows, whatever runs on it."""
    second = node == "node-b"

    def series(signal: str, subject: Subject, start: float, growth: float = 0.0, **extra: str) -> Series:
        return Series(signal, subject, start, growth, labels(**extra))

    def on_host(signal: str, start: float, growth: float = 0.0, **extra: str) -> Series:
        return series(signal, host(node), start, growth, **extra)

    yield series("job_world_size", job_subject(JOB), 5)
    yield on_host("host_memory_total_bytes", 100 * GIB)
    yield on_host("host_memory_available_bytes", (20 if second else 40) * GIB)
    yield on_host("host_shm_size_bytes", 10 * GIB)
    yield on_host("host_shm_available_bytes", (1 if second else 5) * GIB)
    yield on_host("host_filesystem_size_bytes", 1000 * GIB, mount="/")
    yield on_host("host_filesystem_available_bytes", (50 if second else 300) * GIB, mount="/")
    yield on_host("host_cpu_seconds_total", 1000, 6 if second else 4, mode="user")
    yield on_host("host_cpu_seconds_total", 1000, 0.5 if second else 1, mode="system")
    yield on_host("host_cpu_seconds_total", 1000, 3, mode="idle")
    for collector in ("gpu", "trainer"):
        yield on_host("collector_success", 0 if second and collector == "gpu" else 1, collector=collector)
    for index in (0, 1):
        card = gpu(index, host=node)
        place = 2 * second + index
        yield series("gpu_memory_total_bytes", card, 80 * GIB)
        yield series("gpu_memory_used_bytes", card, (20, 40, 60, 72)[place] * GIB)
        yield series("gpu_memory_foreign_bytes", card, GIB if place == 1 else 0)
        yield series("gpu_utilization_ratio", card, (0.9, 0.8, 0.3, 0.2)[place])
        yield series("gpu_temperature_celsius", card, (60, 61, 62, 70)[place])
        yield series("gpu_power_watts", card, (300, 310, 320, 400)[place])
        yield series("gpu_throttle_active", card, 1 if place == 3 else 0, reason="hw_thermal")
    for device, used in (("eth0", 1), ("docker0", 0)):
        interface = nic(device, host=node)
        yield series("net_used_by_job", interface, used)
        yield series("net_up", interface, 0 if second and used else 1)
        yield series("net_mtu_bytes", interface, 1500 if second else 9000)
        yield series("net_transmit_bytes_total", interface, 10, 2e6 if second else 1e6)
        yield series("net_receive_bytes_total", interface, 10, 4e6 if second else 3e6)
        yield series("net_receive_errors_total", interface, 10, 2 if second and used else 0)
        yield series("net_transmit_errors_total", interface, 10, 0)
        yield series("net_receive_dropped_total", interface, 10, 1 if second and used else 0)
        yield series("net_transmit_dropped_total", interface, 10, 0)
    card_port = port("mlx5_0", 1, host=node)
    yield series("rdma_port_up", card_port, 0 if second else 1)
    yield series("rdma_port_speed_bytes_per_second", card_port, 12.5e9 if second else 25e9)
    yield series("rdma_port_mtu_bytes", card_port, 1024 if second else 4096)


def of_other_job(series: Series) -> Series:
    """The same series for job `other` on node-c, with a value that would stand out."""
    subject = series.subject
    elsewhere = Subject(
        subject.kind,
        {"node-a": "node-c", JOB: "other"}.get(subject.name, subject.name),
        "node-c" if subject.host else "",
        "other" if subject.job else "",
    )
    return Series(series.signal, elsewhere, series.start * 3 + 1e6, series.growth * 3 + 7, series.labels)


NODES: Mapping[str, tuple[Series, ...]] = {
    "node-a": (*rank_series(0), *rank_series(1), *node_series("node-a")),
    "node-b": (*rank_series(2), *rank_series(3), *node_series("node-b")),
    "node-c": tuple(of_other_job(series) for series in (*rank_series(0), *node_series("node-a"))),
}
SEVERITIES = {"input_bound": "warning", "low_gpu_utilization": "warning", "mtu_differs": "warning"}


def snapshot(node: str, elapsed: float) -> Snapshot:
    """What the sidecar of `node` knows `elapsed` seconds after the start."""
    samples = tuple(
        Sample(series.signal, series.subject, series.start + elapsed * series.growth, elapsed, series.labels)
        for series in NODES[node]
    )
    begun = elapsed >= FINDING_BEGINS
    sick = node == "node-b" and begun
    findings = {"node-a": (FULL_DISK,), "node-b": (SLOW_LOADER, REMARK), "node-c": (ELSEWHERE,)}
    fresh = (SMALL_MTU,) if node == "node-b" and elapsed >= FRESH_FINDING_BEGINS else ()
    return Snapshot(
        host=node,
        monotonic=elapsed,
        unix=START + elapsed,
        samples=samples,
        findings=(*findings[node], *fresh) if begun else (),
        consequences=(IDLE_GPU,) if sick else (),
        raised={"input_bound": 1, "low_gpu_utilization": 1} if sick else {},
        severities=SEVERITIES,
        undecided=frozenset({"mtu_differs"}) if node == "node-b" else frozenset(),
        job=JobFacts(id=JOB if node == "node-b" else ""),  # the other two are daemons, which belong to no job
        ready=True,
    )


def metrics(node: str, elapsed: float) -> Iterator[Metric]:
    """The metric families that the exporter of `node` renders at that time."""
    yield from Exporter(registry(), lambda: snapshot(node, elapsed)).collect()


def open_metrics() -> str:
    """Every scrape of every node from the start to the end, as `promtool tsdb create-blocks-from openmetrics` reads it."""
    heads: dict[str, str] = {}
    lines: dict[str, list[str]] = {}
    for node in NODES:
        for elapsed in range(0, SECONDS + 1, SCRAPE_SECONDS):
            for family in metrics(node, elapsed):
                heads[family.name] = f"# TYPE {family.name} {family.type}"
                for sample in family.samples:
                    given = {**sample.labels, "instance": f"{node}:9877", "job": "aidiag"}
                    # A scrape drops empty labels; the block writer of promtool would keep them.
                    text = ",".join(
                        f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in given.items() if value
                    )
                    line = f"{sample.name}{{{text}}} {sample.value!r} {START + elapsed}"
                    lines.setdefault(family.name, []).append(line)
    return "\n".join(line for name in heads for line in (heads[name], *lines.get(name, []))) + "\n# EOF\n"
