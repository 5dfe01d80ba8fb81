"""Splitting the communication of a step into waiting for a late peer and time on the wire.

In a synchronous step all ranks leave the collective together. The rank that comes last only waits for the wire, so the
smallest communication time of a step over the ranks in view is wire time, and what each rank waited beyond it is
waiting for a late peer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aidiag.collectors.records import FoundRecord
from aidiag.trainer_shim.owner import Owner

PENDING_STEPS = 64
"""A step that some rank has not reported after so many further ones is settled with the ranks that have."""


@dataclass(frozen=True, slots=True)
class _Step:
    start: float
    end: float
    comm: float
    spent: float


@dataclass(slots=True)
class _Rank:
    owner: Owner
    last_step: int = 0
    pending: dict[int, _Step] = field(default_factory=dict)
    spent: float = 0.0
    late: float = 0.0


class CommSplit:
    """Follows the steps of all ranks in view."""

    def __init__(self) -> None:
        self._ranks: dict[tuple[str, int], _Rank] = {}

    def update(self, found: Mapping[tuple[str, int], FoundRecord]) -> None:
        """Take the newest records by (job, rank) and settle the steps that all living ranks have finished."""
        for key in self._ranks.keys() - found.keys():
            del self._ranks[key]
        for key, one in found.items():
            known = self._ranks.get(key)
            if known is None or known.owner != one.owner:
                known = self._ranks[key] = _Rank(one.owner)
            for step in reversed(one.record.steps):
                if step.number <= known.last_step:
                    break
                comm, spent = step.phases.get("comm", 0.0), step.spent_seconds.get("comm", 0.0)
                known.pending[step.number] = _Step(step.end - step.seconds, step.end, comm, spent)
            known.last_step = max(known.last_step, *known.pending, 0)
        for job in {key[0] for key in found}:
            self._settle({key: rank for key, rank in self._ranks.items() if key[0] == job}, found)

    def seconds(self, key: tuple[str, int]) -> tuple[float, float]:
        """Seconds that a rank has waited for late peers, and seconds on the wire, over all settled steps."""
        known = self._ranks.get(key)
        return (0.0, 0.0) if known is None else (known.late, max(0.0, known.spent - known.late))

    @staticmethod
    def _settle(ranks: Mapping[tuple[str, int], _Rank], found: Mapping[tuple[str, int], FoundRecord]) -> None:
        living = [rank for key, rank in ranks.items() if found[key].alive is not False]
        newest = max((rank.last_step for rank in ranks.values()), default=0)
        ready = max(min((rank.last_step for rank in living), default=newest), newest - PENDING_STEPS)
        for number in sorted({step for rank in ranks.values() for step in rank.pending if step <= ready}):
            together = [rank for rank in ranks.values() if number in rank.pending]
            steps = [rank.pending.pop(number) for rank in together]
            # Steps of one number that were not under way at the same time are not the same step: a rank that was
            # started again counts anew. Nothing can be said of them but what each waited.
            same = max(step.start for step in steps) < min(step.end for step in steps)
            wire = min(step.comm for step in steps)
            for rank, step in zip(together, steps, strict=True):
                rank.spent = max(rank.spent, step.spent)
                rank.late += step.comm - wire if same and len(steps) > 1 else 0.0
