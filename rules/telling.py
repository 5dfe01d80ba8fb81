"""A finding in words: whom it concerns, what was seen, what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from aidiag.collectors import COLLECTORS
from aidiag.collectors.subject import Subject
from aidiag.rules.expression.tree import Type
from aidiag.rules.finding import Culprit, Evidence, Finding, Severity, Step
from aidiag.rules.judgement import Judgement
from aidiag.rules.model import Rule
from aidiag.rules.texts import FORMATS, Text, in_language, names_in, natural, render

MOST_EVIDENCE = 8

_SOURCES = {"trainer": "record of {}", "process": "process of {}", "gpu": "NVML, {}"}
_SIGNAL_SOURCE = {signal.name: name for name, collector in COLLECTORS.items() for signal in collector.signals}


class Occurrence(NamedTuple):
    """A subject for which a rule holds: since when, and when that was found (Unix seconds, None where not known)."""

    judgement: Judgement
    since: float | None
    found_at: float | None


def tell(finding_id: str, occurrences: Sequence[Occurrence], language: str, job: str) -> Finding:
    """The finding about all `occurrences` of one rule. The leading one words the texts."""
    rule = occurrences[0].judgement.rule
    ordered = sorted(occurrences, key=_weight)
    lead = ordered[0].judgement
    subjects = [one.judgement.subject for one in ordered if one.judgement.subject is not None]
    values = {**lead.values, **_places(subjects, lead.subject, lead.job or job, language)}
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
        evidence=tuple(_first(_evidence(rule, ordered, language), MOST_EVIDENCE)),
        why=say(rule.why),
        remedy=tuple(
            Step(say(step.do), render(step.command, values, language), say(step.confirm))
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


def _places(subjects: Sequence[Subject], lead: Subject | None, job: str, language: str) -> dict[str, Any]:
    """The names that every template knows (texts.BUILT_IN)."""
    numbers = sorted({rank for subject in subjects if (rank := subject.rank) is not None})
    hosts = sorted({subject.host for subject in subjects if subject.host})
    names = sorted({subject.name for subject in subjects})
    return {
        "who": who(subjects, language),
        "rank": None if lead is None or lead.rank is None else str(lead.rank),
        "ranks": ranges(numbers),
        "host": (lead.host if lead else "") or None,
        "hosts": ", ".join(hosts) or None,
        "targets": ", ".join(names) or None,
        "job": job or None,
        "subjects": float(len(subjects)),
    }


def who(subjects: Sequence[Subject], language: str) -> str:
    """Subjects in words: `rank 1 on node-a`, `ranks 0-7`, `gpu3 on node-a`."""
    chinese = language.startswith("zh")
    if not subjects:
        return "某个进程" if chinese else "a process that is not known"
    first, hosts = subjects[0], sorted({subject.host for subject in subjects if subject.host})
    numbers = sorted({rank for subject in subjects if (rank := subject.rank) is not None})
    if numbers:
        what = f"rank{'' if len(numbers) == 1 or chinese else 's'} {ranges(numbers)}"
    else:
        what = ", ".join(sorted({subject.name for subject in subjects}))
        if first.kind in ("host", "job"):
            word = {"host": "主机", "job": "作业"}[first.kind] if chinese else first.kind
            return f"{word} {what}"
    if len(hosts) != 1:
        return what
    return f"{hosts[0]} 上的 {what}" if chinese else f"{what} on {hosts[0]}"


def ranges(numbers: Sequence[int]) -> str:
    """Sorted numbers in words: `0-3, 7`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def _culprit(rule: Rule, subjects: Sequence[Subject], lead: Judgement) -> Culprit | None:
    """Who is to blame, None where the rule blames nobody or nobody knows."""
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


def _evidence(rule: Rule, ordered: Sequence[Occurrence], language: str) -> Iterator[Evidence]:
    """What was seen of the leading subject, then one thing of each of the others."""
    for position, occurrence in enumerate(ordered):
        found = dict.fromkeys((*_logged(occurrence.judgement), *_measured(rule, occurrence.judgement, language)))
        yield from _first(found, MOST_EVIDENCE if position == 0 else 1)


def _logged(judgement: Judgement) -> Iterator[Evidence]:
    for event in judgement.events:
        if event.place is not None:
            yield Evidence(event.place.source, event.place.line, event.place.text)
        else:
            said = ", ".join(f"{name} {value}" for name, value in event.fields.items())
            yield Evidence(
                f"events of {event.subject or 'the job'}", None, f"{event.kind}: {said}" if said else event.kind
            )


def _measured(rule: Rule, judgement: Judgement, language: str) -> Iterator[Evidence]:
    if rule.evidence:
        values = {
            **judgement.values,
            **_places([judgement.subject] if judgement.subject else [], judgement.subject, judgement.job, language),
        }
        for text in rule.evidence:
            template = in_language(text, language)
            known = [judgement.signals[name] for name in names_in(template) if name in judgement.signals]
            source = _source(known[0].signal, known[0].subject) if known else str(judgement.subject or "the job")
            if all(values.get(name) not in (None, "") for name in names_in(template)):
                yield Evidence(source, None, render(template, values, language))
        return
    for name, reading in judgement.signals.items():
        let, value = rule.lets[name], judgement.values.get(name)
        if value is not None:
            yield Evidence(_source(reading.signal, reading.subject), None, f"{let.source} = {show(value, let.type)}")
    for reading in judgement.readings:
        labels = ",".join(f"{name}={value}" for name, value in reading.labels)
        name = f"{reading.signal}{{{labels}}}" if labels else reading.signal
        yield Evidence(
            _source(reading.signal, reading.subject),
            None,
            f"{name} = {reading.value if isinstance(reading.value, str) else FORMATS['any'](reading.value)}",
        )


def show(value: Any, kind: Type) -> str:
    """A value in the form that suits its unit."""
    return render(f"{{value:{natural(kind)}}}", {"value": value})


def _source(signal: str, subject: Subject) -> str:
    """The name of a measurement: `record of rank 1 on node-a`."""
    return _SOURCES.get(_SIGNAL_SOURCE.get(signal, ""), "{}").format(subject)


def _first(found: Sequence[Evidence] | Iterator[Evidence] | dict[Evidence, None], most: int) -> Iterator[Evidence]:
    for _, item in zip(range(most), found, strict=False):
        yield item


def _earliest(times: Iterator[float | None]) -> float | None:
    return min((time for time in times if time is not None), default=None)
