"""docs/metrics.md: every signal, metric and event, from the registry."""

from __future__ import annotations

from collections.abc import Iterable

from aidiag.collectors import COLLECTORS
from aidiag.collectors.metric import label_names, metric_name
from aidiag.collectors.signal import EventKind, Registry, Signal
from aidiag.grafana.metrics import EXPORTER_METRICS
from aidiag.grafana.recording import RECORDINGS

HEAD = """\
<!-- Made from the collectors' signals by `python -m aidiag.grafana`. Do not edit: change the signals. -->

# Metrics, signals and events

A signal `x` is the metric `aidiag_x` on `/metrics` and the name `x` in a rule. Prometheus adds `instance` and `job`.
What cannot be read is left out, never exported as 0. Labels come from closed sets; `node` is `$NODE_NAME`, else the
host name. A signal of type text is 1 and carries its word in the label `value`.

To see a rank's node: `aidiag_rank_up * on (instance) group_left (node) aidiag_host_info`.
"""


def page(registry: Registry) -> str:
    """The page. What two collectors give stands with the first of them."""
    signals, events = dict(registry.signals), dict(registry.events)
    parts = [HEAD]
    for name, collector in COLLECTORS.items():
        parts.append(f"## {name}\n\n{_first_line(collector.__doc__)} Read every {collector.interval_seconds:g} s.\n")
        own_signals = [signals.pop(one.name) for one in collector.signals if one.name in signals]
        parts += _tables(own_signals, [events.pop(kind.name) for kind in collector.events if kind.name in events])
    parts.append("## aidiag itself\n")
    parts += _tables(signals.values(), events.values())
    parts.append(
        _table(
            ("metric", "type", "labels", "meaning"),
            ((f"`{one.name}`", one.type, _labels(one.labels), one.help) for one in EXPORTER_METRICS),
        )
    )
    parts.append("## Recorded series\n\nMade by Prometheus from `grafana/prometheus/recording.yaml`.\n")
    parts.append(_table(("series", "meaning"), ((f"`{one.name}`", one.help) for one in RECORDINGS)))
    return "\n".join(parts)


def _tables(signals: Iterable[Signal], events: Iterable[EventKind]) -> list[str]:
    tables = []
    rows = [
        (f"`{metric_name(one)}`", one.type, one.unit.replace("_", " "), _labels(label_names(one)), one.help)
        for one in signals
    ]
    if rows:
        tables.append(_table(("metric", "type", "unit", "labels", "meaning"), rows))
    kinds = [
        (f"`{kind.name}`", kind.scope, ", ".join(f"`{field}`" for field in kind.fields), kind.help) for kind in events
    ]
    if kinds:
        tables.append(_table(("event", "of", "facts", "meaning"), kinds))
    return tables


def _labels(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _first_line(text: str | None) -> str:
    return (text or "").strip().split("\n")[0]


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    body = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows]
    return "\n".join([f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *(f"| {row} |" for row in body), ""])
