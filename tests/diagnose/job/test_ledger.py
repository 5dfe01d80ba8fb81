"""The ledger of findings."""

from __future__ import annotations

from dataclasses import replace

from aidiag.diagnose.job.ledger import Ledger
from aidiag.rules.finding import Finding

A = Finding("a", "c", "r", "warning", 0.5, "t", "s", None, None, None, (), "", ())
B = replace(A, id="b", rule="q")


def test_changes_are_told_once() -> None:
    """A finding is raised when it appears, says nothing while it stays, and is cleared when it goes."""
    ledger = Ledger()

    told = [
        [(c.event, c.finding.id) for c in ledger.update(active, now)]
        for now, active in enumerate([[A], [A, B], [B], []])
    ]

    assert [[("raised", "a")], [("raised", "b")], [("cleared", "a")], [("cleared", "b")]] == told


def test_nothing_is_forgotten() -> None:
    """Cleared findings stay in the ledger behind the active ones, in their last form."""
    ledger = Ledger()
    ledger.update([A], 0.0)
    ledger.update([replace(A, summary="later")], 1.0)
    ledger.update([B], 2.0)

    assert ["s", "later"] == [finding.summary for finding in ledger.every()]
    assert ["b", "a"] == [finding.id for finding in ledger.every()]


def test_raised_again_counts_twice() -> None:
    """A finding that comes back is raised again."""
    ledger = Ledger()
    for now, active in enumerate([[A], [], [A]]):
        ledger.update(active, now)

    assert {"r": 2} == ledger.raised
