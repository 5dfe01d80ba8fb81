"""Which findings a job has had: raised, changed, cleared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from aidiag.rules.finding import SEVERITIES, Finding

CLEARED_KEPT = 10_000
"""A daemon lives for months: of more findings that are over, those that ended first are forgotten."""


@dataclass(frozen=True, slots=True)
class Change:
    """A finding appeared, became graver or blames more than before, or went."""

    event: Literal["raised", "changed", "cleared"]
    finding: Finding


@dataclass(slots=True)
class _Entry:
    """A finding in its last form, and in the form that was last told."""

    finding: Finding
    told: Finding
    raised: float


@dataclass(slots=True)
class Ledger:
    """Remembers the findings of a job, so that the report at the end knows those that were cleared as well."""

    _active: dict[str, _Entry] = field(default_factory=dict)
    _cleared: dict[str, _Entry] = field(default_factory=dict)
    _raised: dict[str, int] = field(default_factory=dict)

    def update(self, findings: Iterable[Finding], now: float) -> list[Change]:
        """Take the findings that are active at `now` (seconds of any steady clock) and say what changed."""
        changes: list[Change] = []
        current = {finding.id: finding for finding in findings}
        for key in [key for key in self._active if key not in current]:
            entry = self._cleared[key] = self._active.pop(key)
            changes.append(Change("cleared", entry.finding))
        for key in list(self._cleared)[: max(0, len(self._cleared) - CLEARED_KEPT)]:
            del self._cleared[key]
        for key, finding in current.items():
            known = self._active.get(key)
            if known is None:
                before = self._cleared.pop(key, None)
                self._active[key] = _Entry(finding, finding, before.raised if before else now)
                self._raised[finding.rule] = self._raised.get(finding.rule, 0) + 1
                changes.append(Change("raised", finding))
                continue
            known.finding = finding
            if finding is not known.told and _is_worse(finding, known.told):
                known.told = finding
                changes.append(Change("changed", finding))
        return changes

    @property
    def raised(self) -> dict[str, int]:
        """How often each rule has been raised."""
        return dict(self._raised)

    def every(self) -> list[Finding]:
        """All findings in their last form, the active ones first, then in the order in which they were raised."""
        parts = (sorted(entries.values(), key=lambda entry: entry.raised) for entries in (self._active, self._cleared))
        return [entry.finding for part in parts for entry in part]


def _is_worse(finding: Finding, told: Finding) -> bool:
    """Whether a finding is graver than it was told, or blames somebody who had not been named."""
    return SEVERITIES.index(finding.severity) > SEVERITIES.index(told.severity) or not _blamed(finding) <= _blamed(told)


def _blamed(finding: Finding) -> set[int | str]:
    culprit = finding.culprit
    return set() if culprit is None else {*culprit.ranks, *culprit.hosts, *culprit.targets}
