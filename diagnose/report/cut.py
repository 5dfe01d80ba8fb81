"""Leaving findings out of a report that has too many, those that say least."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from aidiag.rules.finding import Finding


def within(most: int, roots: Sequence[Finding], consequences: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
    """At most so many of arranged findings, in their order: consequences go first, then roots.

    However many roots one rule has, it does not crowd out those of the others: a rule's second root goes before any
    rule's first.
    """
    seen: Counter[str] = Counter()
    turns = []
    for position, root in enumerate(roots):
        turns.append((seen[root.rule], position))
        seen[root.rule] += 1
    kept = [roots[position] for position in sorted(position for _, position in sorted(turns)[:most])]
    ids = {root.id for root in kept}
    left = [finding for finding in consequences if finding.explained_by in ids][: most - len(kept)]
    ids |= {finding.id for finding in left}
    return [replace(root, explains=tuple(one for one in root.explains if one in ids)) for root in kept], left
