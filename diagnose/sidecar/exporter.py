"""/metrics: renders the last snapshot with prometheus_client, and collects nothing.

Names and labels follow the registry: signal `x` is exported as `aidiag_x`. Series are capped, so that a job cannot
fill the monitoring system; what is left out is counted.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable
from typing import TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from aidiag import __version__
from aidiag.collectors.metric import label_names, metric_name
from aidiag.collectors.observation import Sample
from aidiag.collectors.signal import Registry, Signal
from aidiag.collectors.subject import Subject
from aidiag.diagnose.sidecar.snapshot import Snapshot
from aidiag.rules.causes import job_of
from aidiag.rules.finding import Finding

Family: TypeAlias = CounterMetricFamily | GaugeMetricFamily

SERIES_CAP = 20_000
FINDINGS_CAP = 200


def subject_values(subject: Subject) -> tuple[str, ...]:
    """The values of collectors.metric.SUBJECT_LABELS for a subject."""
    match subject.kind:
        case "job":
            return (subject.name,)
        case "rank":
            return (subject.job, subject.name)
        case "host":
            return (subject.name,)
        case "gpu":
            return (subject.host, subject.name.removeprefix("gpu"))
        case "port":
            device, _, number = subject.name.rpartition(":")
            return (subject.host, device, number)
        case _:
            return (subject.host, subject.name)


class Exporter:
    """A prometheus_client collector over the last snapshot.

    `latest` gives it, or None before the first tick.
    """

    def __init__(self, registry: Registry, latest: Callable[[], Snapshot | None]) -> None:
        self._registry = registry
        self._latest = latest

    def describe(self) -> Iterable[Metric]:
        """The empty families, so that `?name[]=` works and nothing is collected at registration."""
        return [_family(signal) for signal in self._registry.signals.values()]

    def collect(self) -> Iterable[Metric]:
        """Every family of the last snapshot."""
        snapshot = self._latest()
        yield _info(
            "aidiag_build_info", "The running aidiag", version=__version__, python_version=platform.python_version()
        )
        if snapshot is None:
            return
        yield from _signals(self._registry, snapshot.samples)
        yield CounterMetricFamily(
            "aidiag_unjudged_observations_total",
            "Observations that no rule has seen because there were too many",
            value=snapshot.left_out,
        )
        yield from _findings(snapshot)


def _info(name: str, text: str, **labels: str) -> Metric:
    family = GaugeMetricFamily(name, text, labels=list(labels))
    family.add_metric(list(labels.values()), 1.0)
    return family


def _family(signal: Signal) -> Family:
    kind = CounterMetricFamily if signal.type == "counter" else GaugeMetricFamily
    return kind(metric_name(signal), signal.help, labels=list(label_names(signal)))


def _signals(registry: Registry, samples: Iterable[Sample]) -> Iterable[Metric]:
    families: dict[str, Family] = {}
    series = 0
    dropped = 0
    for sample in samples:
        signal = registry.signals.get(sample.signal)
        if signal is None:
            continue
        if series >= SERIES_CAP:
            dropped += 1
            continue
        series += 1
        family = families.get(signal.name)
        if family is None:
            family = families[signal.name] = _family(signal)
        given = dict(sample.labels)
        values = [*subject_values(sample.subject), *(given.get(name, "") for name in signal.labels)]
        if isinstance(sample.value, str):
            family.add_metric([*values, sample.value], 1.0)
        else:
            family.add_metric(values, sample.value)
    yield from (families[name] for name in sorted(families))
    yield GaugeMetricFamily("aidiag_exported_series", "Series of signals in this answer", value=series)
    yield GaugeMetricFamily("aidiag_dropped_series", "Series left out because there were too many", value=dropped)


def target_of(finding: Finding) -> str:
    """What a finding blames, in one label: its targets, else its ranks, else its hosts."""
    culprit = finding.culprit
    if culprit is None:
        return ""
    if culprit.targets:
        return ",".join(culprit.targets)
    if culprit.ranks:
        return ",".join(map(str, culprit.ranks[:8])) + ("…" if len(culprit.ranks) > 8 else "")
    return ",".join(culprit.hosts)


def _node(finding: Finding, here: str) -> str:
    """The host that a finding is about: empty where it is about several, so that their sidecars raise one alert."""
    hosts = finding.culprit.hosts if finding.culprit else ()
    return hosts[0] if len(hosts) == 1 else "" if hosts else here


def _findings(snapshot: Snapshot) -> Iterable[Metric]:
    active = GaugeMetricFamily(
        "aidiag_finding_active",
        "1 while a finding is active; explained is 1 for the consequences of another",
        labels=["rule", "severity", "scope", "target", "job_id", "node", "rank", "cause", "explained"],
    )
    every = [*((f, "0") for f in snapshot.findings), *((f, "1") for f in snapshot.consequences)]
    seen: set[tuple[str, ...]] = set()
    for finding, explained in every[:FINDINGS_CAP]:
        culprit = finding.culprit
        ranks = culprit.ranks if culprit else ()
        values = (
            finding.rule,
            finding.severity,
            culprit.kind if culprit else "",
            target_of(finding),
            snapshot.job.id or job_of(finding),
            _node(finding, snapshot.host),
            str(ranks[0]) if len(ranks) == 1 else "",
            finding.cause,
            explained,
        )
        if values not in seen:
            seen.add(values)
            active.add_metric(list(values), 1.0)
    yield active
    yield GaugeMetricFamily(
        "aidiag_findings_suppressed", "Active findings left out because there were too many",
        value=max(0, len(every) - FINDINGS_CAP),
    )  # fmt: skip
    total = CounterMetricFamily("aidiag_findings_total", "Findings raised since the start", labels=["rule", "severity"])
    unknown = GaugeMetricFamily("aidiag_rule_unknown", "1 while a rule cannot be judged", labels=["rule"])
    for rule in sorted(snapshot.severities):
        total.add_metric([rule, snapshot.severities[rule]], snapshot.raised.get(rule, 0))
        unknown.add_metric([rule], 1.0 if rule in snapshot.undecided else 0.0)
    yield total
    yield unknown
