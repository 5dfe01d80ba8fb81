"""Observations that no rule has seen, because there were too many, told among what could not be seen."""

from __future__ import annotations

from aidiag.diagnose.report.model import Unknown
from aidiag.rules.window import Window

NAMED = 5


def left_out(window: Window) -> dict[str, int]:
    """How many observations `window` had no room for, by signal or event kind.

    What another version of aidiag shares and this one does not know is no loss to it.
    """
    known = window.registry
    return {name: count for name, count in window.dropped.items() if name in known.signals or name in known.events}


def told(counts: dict[str, int]) -> tuple[Unknown, ...]:
    """That in words, for the report."""
    if not counts:
        return ()
    some = ", ".join(sorted(counts)[:NAMED]) + (f" and {len(counts) - NAMED} more" if len(counts) > NAMED else "")
    reason = f"there are too many at once: {sum(counts.values()):,} of {some} were never judged"
    return (Unknown("observations", reason, "watch fewer jobs from one place, or look for one that floods it"),)
