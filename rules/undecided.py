"""The third truth value: a condition whose facts are not all there is neither true nor false."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Gap(NamedTuple):
    """A fact that was asked for and is not there: which, why, and what would make it visible.

    `expected` is False where the thing itself is not there (no GPU in this host), so that nothing is amiss.
    """

    what: str
    reason: str
    remedy: str = ""
    expected: bool = True


class Undecided(Exception):
    """A value cannot be had now. `gaps` say what is missing."""

    def __init__(self, *gaps: Gap) -> None:
        super().__init__(gaps)
        self.gaps = gaps

    def __str__(self) -> str:
        return "; ".join(f"{gap.what}: {gap.reason}" for gap in self.gaps)


GAPS_KEPT = 16


def without(gaps: Iterable[Gap]) -> Undecided:
    """An Undecided with each of several gaps once; of very many (each rank of a large job has its own) the first few,
    those that should have been there before those that were not to be expected.
    """
    distinct = list(dict.fromkeys(gaps))
    if len(distinct) > GAPS_KEPT:
        distinct = sorted(distinct, key=lambda gap: not gap.expected)[:GAPS_KEPT]
    return Undecided(*distinct)


def undecided(what: str, reason: str, remedy: str = "", *, expected: bool = True) -> Undecided:
    """An Undecided with one gap."""
    return Undecided(Gap(what, reason, remedy, expected))
