"""Judging: rules over a window at a moment. The same window and moment give the same judgements."""

from __future__ import annotations

from collections.abc import Iterable

from aidiag.rules.bound import BoundRule
from aidiag.rules.judgement import Judgement
from aidiag.rules.model import Rule
from aidiag.rules.tracker import Tracker
from aidiag.rules.window import Window

__all__ = ["Judgement", "Tracker", "judge"]


def judge(rules: Iterable[Rule], window: Window, now: float) -> list[Judgement]:
    """What each rule says about each of its subjects at `now`, in seconds of the window's time base.

    A rule with `events:` speaks only of the subjects of such events, and of those for which a collector has said that it
    cannot see such events there.
    """
    found: list[Judgement] = []
    for rule in rules:
        bound = bind(rule, window)
        found += bound.judge_events(now) if rule.events else bound.judge(now)
    return found


def bind(rule: Rule, window: Window) -> BoundRule:
    """A rule compiled for a window, kept there."""
    bound = window.kept.get(rule.id)
    if bound is None or bound.rule is not rule:
        bound = window.kept[rule.id] = BoundRule(rule, window)
    return bound
