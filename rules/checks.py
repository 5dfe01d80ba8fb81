"""`aidiag check`: rules judged once, told as a verdict for each target of each check."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from aidiag.collectors.subject import Subject
from aidiag.rules.engine import bind
from aidiag.rules.judgement import Judgement
from aidiag.rules.model import Rule
from aidiag.rules.telling import Occurrence, tell
from aidiag.rules.texts import ENGLISH, in_language, render
from aidiag.rules.undecided import Gap
from aidiag.rules.window import Window

Status: TypeAlias = Literal["skipped", "ok", "unknown", "warning", "critical"]

STATUSES: tuple[Status, ...] = get_args(Status)
"""From what matters least to what matters most."""

NODE = "node"
"""The target of what concerns the whole node (nodes/FORMAT.md)."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check found for one target. `reason` says why it is as it is, `remedy` what to do."""

    id: str
    status: Status
    target: str
    observed: str = ""
    expected: str = ""
    reason: str = ""
    remedy: str = ""
    host: str = ""
    rule: str = ""


def verdicts(rules: Iterable[Rule], window: Window, now: float, language: str = ENGLISH) -> list[Verdict]:
    """A verdict for each target of each rule that has a `check`, the worst one where several rules share it.

    Hardware that is not there is skipped; what should be visible and is not is unknown, with its reason and remedy. How
    long a condition has held does not matter here.
    """
    worst: dict[tuple[str, str, str], Verdict] = {}
    for rule in rules:
        for verdict in _of_rule(rule, window, now, language) if rule.check else ():
            key = (verdict.id, verdict.host, verdict.target)
            known = worst.get(key)
            if known is None or STATUSES.index(verdict.status) > STATUSES.index(known.status):
                worst[key] = verdict
    return _without_empty(worst.values())


def _of_rule(rule: Rule, window: Window, now: float, language: str) -> Iterator[Verdict]:
    bound = bind(rule, window)
    judgements = bound.judge_events(now) if rule.events else bound.judge(now)
    for judgement in judgements:
        yield _verdict(judgement, language)
    if not judgements:
        yield from _nothing_happened(rule, window, now) if rule.events else _nothing_seen(rule, bound.signals(), window)


def _verdict(judgement: Judgement, language: str) -> Verdict:
    rule, subject = judgement.rule, judgement.subject
    plain = Verdict(rule.check or rule.id, "ok", _target(judgement, language), host=subject.host if subject else "")
    plain = replace(plain, rule=rule.id)
    if judgement.state == "quiet":
        return plain
    if judgement.state == "undecided":
        return _unseen(plain, judgement.gaps)
    finding = tell("", [Occurrence(judgement, None, None)], language, judgement.job)
    status: Status = "ok" if finding.severity == "info" else finding.severity
    steps = (f"{step.do} {step.command}".strip() for step in finding.remedy)
    return replace(
        plain,
        status=status,
        observed=render(in_language(rule.observed, language), judgement.values, language),
        expected=render(in_language(rule.expected, language), judgement.values, language),
        reason=finding.summary,
        remedy=next(steps, ""),
    )


def _unseen(plain: Verdict, gaps: Iterable[Gap]) -> Verdict:
    """A fact is missing. That is as it should be only where none of the missing facts was to be expected."""
    missing = [gap for gap in gaps if gap.expected]
    if missing or not gaps:
        gap = missing[0] if missing else None
        reason = f"{gap.what}: {gap.reason}" if gap else "cannot be judged"
        return replace(plain, status="unknown", reason=reason, remedy=gap.remedy if gap else "")
    return replace(plain, status="skipped", reason=next(iter(gaps)).reason)


def _nothing_happened(rule: Rule, window: Window, now: float) -> Iterator[Verdict]:
    """No event and no reason why none could be seen: that is well where the source of each kind was read."""
    plain = Verdict(rule.check or rule.id, "ok", NODE, rule=rule.id)
    for name in [one.host for one in window.subjects("host")] or [""]:
        unseen = [kind for kind in rule.events if not window.watched(kind, name, now)]
        reason = f"nothing watches for {', '.join(unseen)} here" if unseen else ""
        yield replace(plain, status="unknown" if unseen else "ok", reason=reason, host=name)


def _nothing_seen(rule: Rule, signals: Iterable[str], window: Window) -> Iterator[Verdict]:
    """No subject to judge: what do the collectors say?"""
    plain = Verdict(rule.check or rule.id, "unknown", NODE, rule=rule.id)
    if rule.each and window.subjects(rule.scope):
        yield replace(plain, status="ok", reason=f"there is no {rule.each} to judge")
        return
    said = [absent for signal in signals for absent in window.absences(signal)]
    if not said:
        yield replace(plain, reason=f"no {rule.scope} has been reported")
        return
    unexpected = next((absent for absent in said if absent.expected), None)
    absent = unexpected or said[0]
    status: Status = "unknown" if unexpected else "skipped"
    yield replace(plain, status=status, reason=absent.reason, remedy=absent.remedy, host=absent.subject.host)


def _target(judgement: Judgement, language: str) -> str:
    rule, subject = judgement.rule, judgement.subject
    if rule.target and (judgement.values or judgement.binding):
        values = judgement.values or {rule.each or "": judgement.binding}
        return render(rule.target, values, language)
    return _named(subject)


def _named(subject: Subject | None) -> str:
    return subject.name if subject is not None and subject.kind in ("gpu", "port", "nic", "rank") else NODE


def _without_empty(found: Iterable[Verdict]) -> list[Verdict]:
    """Leave out that the whole node is skipped where the same check judged one of its targets."""
    kept = list(found)
    judged = {verdict.id for verdict in kept if verdict.status in ("ok", "warning", "critical")}
    return [v for v in kept if v.status != "skipped" or v.target != NODE or v.id not in judged]
