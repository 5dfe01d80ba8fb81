"""The state of a sidecar at one tick, immutable, so that HTTP threads read it without locks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aidiag.collectors.observation import Sample
from aidiag.diagnose.report.model import JobFacts, RankRow, Unknown
from aidiag.rules.finding import Finding


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the last tick knew. `monotonic` and `unix` are the two times of that tick.

    `samples` holds the newest reading of each series of this host. `findings` are the active ones, roots first,
    `raised` counts how often each rule has been raised, `undecided` names the rules that lack a signal,
    `left_out` counts the observations that no rule saw, because there were too many.
    """

    host: str
    monotonic: float
    unix: float
    samples: tuple[Sample, ...] = ()
    findings: tuple[Finding, ...] = ()
    consequences: tuple[Finding, ...] = ()
    raised: Mapping[str, int] = field(default_factory=dict)
    severities: Mapping[str, str] = field(default_factory=dict)
    undecided: frozenset[str] = frozenset()
    unknown: tuple[Unknown, ...] = ()
    ranks: tuple[RankRow, ...] = ()
    job: JobFacts = field(default_factory=JobFacts)
    left_out: int = 0
    ready: bool = False

    def world_size(self) -> int | None:
        """How many ranks the job says it has, None where no rank has told yet."""
        sizes = [s.value for s in self.samples if s.signal == "job_world_size" and isinstance(s.value, float)]
        return int(max(sizes)) if sizes else None
