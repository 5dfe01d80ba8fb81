"""The ledger of findings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aidiag.diagnose.job import ledger as book
from aidiag.diagnose.job.ledger import Ledger
from aidiag.rules.finding import Culprit, Finding

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


def test_what_becomes_worse_is_told_again() -> None:
    """A graver severity or a further culprit is a change, each once; new words, a lesser severity or fewer culprits are
    not.
    """
    ledger = Ledger()
    one, two = (replace(A, culprit=Culprit("rank", ranks, ("n",))) for ranks in ((1,), (1, 2)))
    forms = [
        one, replace(one, summary="61 %"), two, two, one, two, replace(two, severity="critical"), two,
        replace(two, severity="critical"),
    ]  # fmt: skip

    told = [[change.event for change in ledger.update([form], float(now))] for now, form in enumerate(forms)]

    assert [["raised"], [], ["changed"], [], [], [], ["changed"], [], []] == told


def test_a_long_life_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the findings that are over only so many are kept, those that ended last; active ones always."""
    monkeypatch.setattr(book, "CLEARED_KEPT", 3)
    ledger = Ledger()
    for number in range(10):
        ledger.update([A, replace(B, id=str(number))], float(number))
    ledger.update([A], 10.0)

    assert ["a", "7", "8", "9"] == [finding.id for finding in ledger.every()]
    assert {"r": 1, "q": 10} == ledger.raised
