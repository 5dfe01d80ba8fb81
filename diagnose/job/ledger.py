"""Which findings a job has had: raised, changed, cleared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from aidiag.rules.finding import Finding


@dataclass(frozen=True, slots=True)
class Change:
    """A finding appeared or went."""

    event: Literal["raised", "cleared"]
    finding: Finding


@dataclass(slots=True)
class _Entry:
    finding: Finding
    active: bool
    raised: float
    active_seconds: float = 0.0


@dataclass(slots=True)
class Ledger:
    """Remembers every finding of a job, so that the report at the end knows those that were cleared as well."""

    _entries: dict[str, _Entry] = field(default_factory=dict)
    _raised: dict[str, int] = field(default_factory=dict)
    _last: float | None = None

    def update(self, findings: Iterable[Finding], now: float) -> list[Change]:
        """Take the findings that are active at `now` (seconds of any steady clock) and say what changed."""
        changes: list[Change] = []
        elapsed = 0.0 if self._last is None else max(0.0, now - self._last)
        self._last = now
        current = {finding.id: finding for finding in findings}
        for key, entry in self._entries.items():
            if entry.active:
                entry.active_seconds += elapsed
                if key not in current:
                    entry.active = False
                    changes.append(Change("cleared", entry.finding))
        for key, finding in current.items():
            known = self._entries.get(key)
            if known is None:
                self._entries[key] = _Entry(finding, True, now)
            else:
                if known.active:
                    known.finding = finding
                    continue
                known.finding, known.active = finding, True
            self._raised[finding.rule] = self._raised.get(finding.rule, 0) + 1
            changes.append(Change("raised", finding))
        return changes

    @property
    def raised(self) -> dict[str, int]:
        """How often each rule has been raised."""
        return dict(self._raised)

    def every(self) -> list[Finding]:
        """All findings in their last form, the active ones first, then in the order in which they were raised."""
        entries = sorted(self._entries.values(), key=lambda entry: (not entry.active, entry.raised))
        return [entry.finding for entry in entries]
