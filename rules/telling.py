"""A finding in words: whom it concerns, what was seen, what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from aidiag.collectors.subject import Subject, host
from aidiag.rules.evidence import evidence
from aidiag.rules.finding import Culprit, Finding, Severity, Step
from aidiag.rules.judgement import Judgement
from aidiag.rules.model import Rule
from aidiag.rules.places import places, ranks_in
from aidiag.rules.texts import Text, in_language, render


class Occurrence(NamedTuple):
    """A subject for which a rule holds: since when, and when that was found (Unix seconds, None where not known)."""

    judgement: Judgement
    since: float | None
    found_at: float | None


def tell(finding_id: str, occurrences: Sequence[Occurrence], language: str, job: str) -> Finding:
    """The finding about all `occurrences` of one rule. The leading one words the texts: the first one where the rule tells
    of moments.
    """
    rule = occurrences[0].judgement.rule
    ordered = list(occurrences) if rule.merge == "moment" else sorted(occurrences, key=_weight)
    lead = ordered[0].judgement
    subjects = [one.judgement.subject for one in ordered if one.judgement.subject is not None] or _hosts_named(lead)
    values = {**lead.values, **places(subjects, lead.subject, lead.job or job, language)}
    severity: Severity = "critical" if any(one.judgement.critical for one in ordered) else rule.severity

    def say(text: Text) -> str:
        return render(in_language(text, language), values, language)

    return Finding(
        id=finding_id,
        cause=rule.cause,
        rule=rule.id,
        severity=severity,
        confidence=rule.confidence,
        title=say(rule.title),
        summary=say(rule.summary),
        culprit=_culprit(rule, subjects, lead),
        since=_earliest(one.since for one in ordered),
        found_at=_earliest(one.found_at for one in ordered),
        evidence=evidence([one.judgement for one in ordered], language),
        why=say(rule.why),
        remedy=tuple(
            Step(say(step.do), render(step.command, values, language, to_type=True), say(step.confirm))
            for number, step in enumerate(rule.remedy)
            if number in lead.steps
        ),
    )


def _weight(occurrence: Occurrence) -> tuple[float, int, str]:
    judgement = occurrence.judgement
    lead = judgement.values.get(judgement.rule.lead or "")
    leading = -float(lead) if isinstance(lead, int | float) else 0.0
    number = judgement.subject.rank if judgement.subject else None
    return (leading, -1 if number is None else number, str(judgement.subject))


def _hosts_named(judgement: Judgement) -> list[Subject]:
    """The hosts that events of nobody name: whose process it was is not known, but where it ran is."""
    names = {event.fields.get("host") for event in judgement.events if event.subject is None}
    return [host(name) for name in sorted(name for name in names if isinstance(name, str) and name)]


def _culprit(rule: Rule, subjects: Sequence[Subject], lead: Judgement) -> Culprit | None:
    """Who is to blame, None where the rule blames nobody or nobody knows."""
    named = ranks_in(lead.values.get(rule.culprit_ranks or ""))
    if named:
        return Culprit("rank", ranks=named)
    kind = rule.culprit
    if kind == "none" or not subjects:
        return None
    expected = [subject for subject in subjects if subject.kind == rule.scope]
    if not expected:  # events of another kind of subject than the rule expects
        kind = subjects[0].kind
    hosts = tuple(sorted({subject.host for subject in subjects if subject.host}))
    if kind == "rank":
        return Culprit(
            kind, ranks=tuple(sorted({r for subject in subjects if (r := subject.rank) is not None})), hosts=hosts
        )
    if kind in ("job", "host"):
        return Culprit(kind, hosts=hosts)
    if kind == (expected or subjects)[0].kind:
        return Culprit(kind, hosts=hosts, targets=tuple(sorted({subject.name for subject in expected or subjects})))
    gpu = lead.values.get("gpu") if kind == "gpu" else None
    return Culprit(kind, hosts=hosts, targets=(gpu,)) if gpu else None


def _earliest(times: Iterator[float | None]) -> float | None:
    return min((time for time in times if time is not None), default=None)
