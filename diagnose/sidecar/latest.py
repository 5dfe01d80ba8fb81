"""The newest reading of each series, as /metrics and the status page show it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from aidiag.collectors.observation import Labels, Sample
from aidiag.collectors.signal import Registry
from aidiag.collectors.subject import Subject

KEEP_SECONDS = 600.0
"""How long the last words of a rank that ended are shown; other series end when their readings go stale."""


class Latest:
    """Newest samples by series. Readings go when they are stale: an old value is never shown as a fresh one."""

    def __init__(self, registry: Registry, host: str) -> None:
        self._ages = {signal.name: signal.max_age_seconds for signal in registry.signals.values()}
        self._host = host
        self._series: dict[tuple[str, Subject, Labels], Sample] = {}

    def add(self, sample: Sample) -> None:
        """Take a reading, where there is no newer one: what another host says of the job may come late."""
        key = (sample.signal, sample.subject, sample.labels)
        known = self._series.get(key)
        if known is None or sample.time >= known.time:
            self._series[key] = sample

    def expire(self, now: float) -> None:
        """Forget what is stale at `now`."""
        ended = {key[1] for key, sample in self._series.items() if key[0] == "rank_up" and sample.value == 0.0}
        for key, sample in list(self._series.items()):
            age = KEEP_SECONDS if sample.subject in ended else self._ages.get(sample.signal, 30.0)
            if now - sample.time > age:
                del self._series[key]

    def samples(self) -> tuple[Sample, ...]:
        """The readings of this host's own subjects and of the job."""
        return tuple(sample for sample in self._series.values() if sample.subject.host in ("", self._host))

    def ranks(self) -> Mapping[Subject, Mapping[tuple[str, Labels], Sample]]:
        """The readings of every rank in view, those of other hosts too."""
        found: dict[Subject, dict[tuple[str, Labels], Sample]] = defaultdict(dict)
        for (signal, subject, labels), sample in self._series.items():
            if subject.kind == "rank":
                found[subject][(signal, labels)] = sample
        return found
