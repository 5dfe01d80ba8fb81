"""Splitting the communication of a step into waiting for a late peer and time on the wire.

In a synchronous step all ranks leave the collective together. The rank that comes last only waits for the wire, so the
smallest communication time of a step over all ranks of the job is wire time, and what each rank waited beyond it is
waiting for a late peer. The one that came last may be any rank: with some out of view (on another host, or without the
shim) nothing can be said but how long each communicated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from aidiag.collectors.records import FoundRecord
from aidiag.trainer_shim import layout
from aidiag.trainer_shim.owner import Owner

PENDING_STEPS = 64
"""A step that some rank has not reported after so many further ones is settled without it."""
COMM, LATE_PEER, WIRE = "comm", "comm_late_peer", "comm_wire"
COMM_PHASES = (COMM, LATE_PEER, WIRE)
"""The phases that communication is told as: whole, or its two parts."""
_MISSED_SECONDS = 1e-6
"""What the totals of a rank may differ from the sum of its steps by rounding."""


class _Step(NamedTuple):
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
    settled: dict[str, float] = field(default_factory=dict)

    def settle(self, step: _Step, wire: float | None) -> None:
        """Count a step; `wire` is what all ranks together say of it, None where it cannot be split."""
        missed = step.spent - self.spent - step.comm
        self.spent = max(self.spent, step.spent)
        if missed > _MISSED_SECONDS:  # steps from before this rank was followed
            self._add(COMM, missed)
        if wire is None:
            self._add(COMM, step.comm)
        else:
            self._add(LATE_PEER, step.comm - wire)
            self._add(WIRE, wire)

    def _add(self, phase: str, seconds: float) -> None:
        self.settled[phase] = self.settled.get(phase, 0.0) + seconds


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
                spent, before = step.spent_ns[layout.COMM], step.before_ns[layout.COMM]
                comm = max(spent - before, 0) / 1e9
                known.pending[step.number] = _Step(step.end - step.seconds, step.end, comm, spent / 1e9)
            known.last_step = max(known.last_step, *known.pending, 0)
        for job in {key[0] for key in found}:
            self._settle({key: rank for key, rank in self._ranks.items() if key[0] == job}, found)

    def seconds(self, key: tuple[str, int]) -> Mapping[str, float]:
        """What a rank has spent on communication over all settled steps, by phase. A phase that no step was told as is
        not there; none is where the rank has not communicated.
        """
        known = self._ranks.get(key)
        return known.settled if known is not None and known.spent > 0 else {}

    @staticmethod
    def _settle(ranks: Mapping[tuple[str, int], _Rank], found: Mapping[tuple[str, int], FoundRecord]) -> None:
        living = [rank for key, rank in ranks.items() if found[key].alive is not False]
        newest = max((rank.last_step for rank in ranks.values()), default=0)
        ready = max(min((rank.last_step for rank in living), default=newest), newest - PENDING_STEPS)
        world_size = max(found[key].record.identity.world_size for key in ranks)
        for number in sorted({step for rank in ranks.values() for step in rank.pending if step <= ready}):
            together = [rank for rank in ranks.values() if number in rank.pending]
            steps = [rank.pending.pop(number) for rank in together]
            split = len(together) == world_size and _same(steps)
            wire = min(step.comm for step in steps) if split else None
            for rank, step in zip(together, steps, strict=True):
                rank.settle(step, wire)


def _same(steps: Sequence[_Step]) -> bool:
    """Whether steps of one number were under way at the same time: a rank that was started again counts anew."""
    return max(step.start for step in steps) < min(step.end for step in steps)
