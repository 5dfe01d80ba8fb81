"""The third truth value: a condition whose facts are not all there is neither true nor false."""

from __future__ import annotations

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


def undecided(what: str, reason: str, remedy: str = "", *, expected: bool = True) -> Undecided:
    """An Undecided with one gap."""
    return Undecided(Gap(what, reason, remedy, expected))
