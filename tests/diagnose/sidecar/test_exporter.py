"""The whole /metrics output: a golden file, the reference parser, and promtool's lint."""

from __future__ import annotations

import difflib
import os
import re
import subprocess
from pathlib import Path

from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import CollectorRegistry

from aidiag.collectors import registry
from aidiag.collectors.observation import Sample, labels
from aidiag.collectors.signal import Signal
from aidiag.collectors.subject import Subject, gpu, host, job, nic, port, rank
from aidiag.diagnose.report.model import JobFacts
from aidiag.diagnose.sidecar.exporter import Exporter
from aidiag.diagnose.sidecar.snapshot import Snapshot
from aidiag.rules.finding import Culprit, Finding
from tests.real_parts import require

GOLDEN = Path(__file__).resolve().parents[2] / "fixtures" / "metrics.golden.txt"

SUBJECTS = {
    "job": job("j"),
    "host": host("node-a"),
    "rank": rank(1, host="node-a", job="j"),
    "gpu": gpu(3, host="node-a"),
    "port": port("mlx5_0", 1, host="node-a"),
    "nic": nic("eth0", host="node-a"),
    "link": Subject("link", "node-a>node-b", host="node-a"),
}


def finding(rule: str, severity: str, culprit: Culprit | None, of_job: str = "j") -> Finding:
    """A finding with what /metrics shows of it."""
    return Finding(f"{rule}/{of_job}/x", rule, rule, severity, 1.0, rule, rule, culprit, None, None, (), "", ())  # type: ignore[arg-type]


def sample(number: int, signal: Signal) -> Sample:
    """One reading of a signal, with a value of its own."""
    value = "word" if signal.type == "text" else 1.0 if signal.type == "info" else float(number)
    return Sample(
        signal.name, SUBJECTS[signal.scope], value, 100.0, labels(**{name: f"a {name}" for name in signal.labels})
    )


def rendered(snapshot: Snapshot | None) -> str:
    """The exposition of a snapshot, without the versions that differ from machine to machine."""
    metrics = CollectorRegistry(auto_describe=False)
    metrics.register(Exporter(registry(), lambda: snapshot))
    text = generate_latest(metrics).decode()
    return re.sub(r'python_version="[^"]*",version="[^"]*"', 'python_version="P",version="V"', text)


def full_snapshot() -> Snapshot:
    """A reading of every signal that there is, findings of several kinds, and rules that cannot be judged."""
    return Snapshot(
        host="node-a",
        monotonic=100.0,
        unix=1_000.0,
        samples=tuple(sample(number, signal) for number, signal in enumerate(registry().signals.values())),
        findings=(
            finding("input_bound", "warning", Culprit("rank", (0, 1), ("node-a", "node-b"))),
            finding("rdma_port_down", "critical", Culprit("port", (), ("node-a",), ("mlx5_0:1",)), ""),
            finding("hostile", "info", Culprit("nic", (), ("node-a",), ('a"b\\c\nd',))),
        ),
        consequences=(finding("low_gpu_utilization", "warning", None),),
        raised={"input_bound": 2},
        severities={"input_bound": "warning", "rdma_port_down": "critical", "straggler": "warning"},
        undecided=frozenset({"straggler"}),
        job=JobFacts("j"),
        left_out=7,
        ready=True,
    )


def test_whole_output_is_the_golden_file() -> None:
    """Every metric, label and help text is as reviewed; AIDIAG_RENEW_GOLDEN=1 writes the file anew for a review."""
    text = rendered(full_snapshot())
    if os.environ.get("AIDIAG_RENEW_GOLDEN") == "1":
        GOLDEN.write_text(text)
    golden = GOLDEN.read_text()

    assert golden == text, "\n".join(difflib.unified_diff(golden.splitlines(), text.splitlines(), lineterm="", n=0))


def test_promtool_finds_nothing_to_lint() -> None:
    """`promtool check metrics` accepts the whole output."""
    lint = subprocess.run(
        [require("promtool"), "check", "metrics"], input=rendered(full_snapshot()), capture_output=True, text=True,
        check=False,
    )  # fmt: skip

    assert (0, "") == (lint.returncode, lint.stderr)


def test_reference_parser_reads_hostile_labels_back() -> None:
    """Quotes, backslashes and newlines in a label survive."""
    families = text_string_to_metric_families(rendered(full_snapshot()))
    targets = {s.labels["target"] for family in families for s in family.samples if s.name == "aidiag_finding_active"}

    assert 'a"b\\c\nd' in targets


def test_nothing_is_shown_before_the_first_tick() -> None:
    """Before anything was collected only the build is told: no value is made up."""
    assert ["aidiag_build_info"] == [family.name for family in text_string_to_metric_families(rendered(None))]
