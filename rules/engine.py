"""Judging: rules over a window at a moment. The same window and moment give the same judgements."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from aidiag.rules.bound import BoundRule
from aidiag.rules.judgement import Judgement
from aidiag.rules.model import Rule
from aidiag.rules.tracker import Tracker
from aidiag.rules.undecided import Gap
from aidiag.rules.window import Window

__all__ = ["Judgement", "Tracker", "judge"]

log = logging.getLogger(__name__)


def judge(rules: Iterable[Rule], window: Window, now: float) -> list[Judgement]:
    """What each rule says about each of its subjects at `now`, in seconds of the window's time base.

    A rule with `events:` speaks only of the subjects of such events, and of those for which a collector has said that it
    cannot see such events there.
    """
    found: list[Judgement] = []
    for rule in rules:
        try:
            bound = bind(rule, window)
            found += bound.judge_events(now) if rule.events else bound.judge(now)
        except Exception as error:  # a fault in one rule must not take the verdict of all others along
            log.exception("the rule %s failed", rule.id)
            gap = Gap(f"rule:{rule.id}", f"the rule failed: {type(error).__name__}: {error}", "please report it")
            found.append(Judgement(rule, None, "undecided", None, (gap,)))
    return found


def bind(rule: Rule, window: Window) -> BoundRule:
    """A rule compiled for a window, kept there."""
    bound = window.kept.get(rule.id)
    if bound is None or bound.rule is not rule:
        bound = window.kept[rule.id] = BoundRule(rule, window)
    return bound
