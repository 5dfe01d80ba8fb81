"""Every metric that aidiag exports: those of the signals, and those of the exporter itself.

Dashboards, alerts and docs are checked against this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from aidiag.collectors.metric import label_names, metric_name
from aidiag.collectors.signal import Registry


@dataclass(frozen=True, slots=True)
class Metric:
    """One exported metric. `signal` is the name of the signal behind it, empty for the exporter's own."""

    name: str
    type: Literal["counter", "gauge"]
    unit: str
    labels: tuple[str, ...]
    help: str
    signal: str = ""


FINDING_LABELS = ("rule", "severity", "scope", "target", "job_id", "node", "rank", "cause", "explained")

EXPORTER_METRICS = (
    Metric("aidiag_build_info", "gauge", "", ("version", "python_version"), "The running aidiag"),
    Metric(
        "aidiag_finding_active",
        "gauge",
        "",
        FINDING_LABELS,
        "1 while a finding is active; explained is 1 for the consequences of another",
    ),
    Metric("aidiag_findings_total", "counter", "count", ("rule", "severity"), "Findings raised since the start"),
    Metric(
        "aidiag_findings_suppressed",
        "gauge",
        "count",
        (),
        "Active findings left out because there were too many",
    ),
    Metric(
        "aidiag_unjudged_observations_total",
        "counter",
        "count",
        (),
        "Observations that no rule has seen because there were too many",
    ),
    Metric("aidiag_rule_unknown", "gauge", "", ("rule",), "1 while a rule cannot be judged"),
    Metric("aidiag_exported_series", "gauge", "count", (), "Series of signals in this answer"),
    Metric("aidiag_dropped_series", "gauge", "count", (), "Series left out because there were too many"),
)


def metric_table(registry: Registry) -> Mapping[str, Metric]:
    """All metrics by name."""
    of_signals = (
        Metric(
            metric_name(signal),
            "counter" if signal.type == "counter" else "gauge",
            signal.unit,
            label_names(signal),
            signal.help,
            signal.name,
        )
        for signal in registry.signals.values()
    )
    return {metric.name: metric for metric in (*of_signals, *EXPORTER_METRICS)}
