"""Reports that have too many findings."""

from __future__ import annotations

from aidiag.diagnose.report.cut import within
from aidiag.rules.finding import Finding


def finding(rule: str, number: int, explains: tuple[str, ...] = (), explained_by: str | None = None) -> Finding:
    """A finding."""
    return Finding(
        f"{rule}/j/{number}", "c", rule, "critical", 0.8, "t", "s", None, None, None, (), "", (), explains, explained_by
    )


def test_consequences_are_left_out_first() -> None:
    """All roots stay while there are consequences to leave out, and a root names only those that are still there."""
    effects = [finding("effect", n, explained_by="cause/j/0") for n in range(5)]
    roots = [finding("cause", 0, tuple(effect.id for effect in effects)), finding("other", 0)]

    kept, left = within(4, roots, effects)

    assert (["cause", "other"], effects[:2]) == ([root.rule for root in kept], left)
    assert ("effect/j/0", "effect/j/1") == kept[0].explains


def test_no_rule_crowds_out_another() -> None:
    """Hundreds of roots of one rule, surer than a root of another, do not push it out; and the order stays."""
    roots = [*(finding("many", n) for n in range(300)), finding("one", 0), finding("two", 0), finding("two", 1)]

    kept, _ = within(10, roots, [])

    assert 10 == len(kept)
    assert ["many"] * 7 + ["one", "two", "two"] == [root.rule for root in kept]


def test_who_has_few_loses_none() -> None:
    """Up to the limit a report stays as it is."""
    effect = finding("effect", 0, explained_by="cause/j/0")
    root = finding("cause", 0, (effect.id,))

    assert ([root], [effect]) == within(2, [root], [effect])


def test_what_a_root_explains_goes_with_it() -> None:
    """Where a root is left out, nothing remains that names it as its cause."""
    effect = finding("effect", 0, explained_by="cause/j/1")

    assert [] == within(1, [finding("cause", 0), finding("cause", 1, (effect.id,))], [effect])[1]
