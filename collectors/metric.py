"""The name and the labels under which a signal is exported to Prometheus."""

from __future__ import annotations

from collections.abc import Mapping

from aidiag.collectors.signal import Signal
from aidiag.collectors.subject import SubjectKind

SUBJECT_LABELS: Mapping[SubjectKind, tuple[str, ...]] = {
    "job": ("job_id",),
    "host": ("node",),
    "rank": ("job_id", "rank"),
    "gpu": ("node", "gpu"),
    "port": ("node", "device", "port"),
    "nic": ("node", "device"),
    "link": ("node", "link"),
}


def metric_name(signal: Signal) -> str:
    """`aidiag_<signal>`; a text signal is an info metric that carries its word in the label `value`."""
    return f"aidiag_{signal.name}_info" if signal.type == "text" else f"aidiag_{signal.name}"


def label_names(signal: Signal) -> tuple[str, ...]:
    """The labels of a signal's metric, those of its subject first."""
    extra = (*signal.labels, "value") if signal.type == "text" else signal.labels
    return (*SUBJECT_LABELS[signal.scope], *extra)
