"""What was seen: log lines with their place, measurements with their source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from aidiag.collectors import COLLECTORS
from aidiag.collectors.subject import Subject
from aidiag.rules.expression.tree import TRUTH, Type
from aidiag.rules.finding import Evidence
from aidiag.rules.judgement import Judgement
from aidiag.rules.places import places
from aidiag.rules.texts import FORMATS, in_language, names_in, natural, render

MOST_EVIDENCE = 8
LONGEST_SOURCE = 120

_SOURCES = {"trainer": "record of {}", "process": "process of {}", "gpu": "NVML, {}"}
_COLLECTOR_OF = {signal.name: name for name, collector in COLLECTORS.items() for signal in collector.signals}


def evidence(judgements: Sequence[Judgement], language: str) -> tuple[Evidence, ...]:
    """What was seen of the leading subject, which comes first, and one thing of each of the others; bounded."""
    found: dict[Evidence, None] = {}
    for position, judgement in enumerate(judgements):
        seen = dict.fromkeys((*_logged(judgement), *_measured(judgement, language)))
        found.update(dict.fromkeys(islice(seen, MOST_EVIDENCE if position == 0 else 1)))
    return tuple(islice(found, MOST_EVIDENCE))


def _logged(judgement: Judgement) -> Iterator[Evidence]:
    for event in (*judgement.events[:1], *judgement.support, *judgement.events[1:]):
        if event.place is not None:
            yield Evidence(event.place.source, event.place.line, event.place.text)
            continue
        said = ", ".join(f"{name} {value}" for name, value in event.fields.items())
        whose = f"events of {event.subject or 'the job'}"
        yield Evidence(whose, None, f"{event.kind}: {said}" if said else event.kind)


def _measured(judgement: Judgement, language: str) -> Iterator[Evidence]:
    if judgement.rule.evidence:
        yield from _in_the_rules_words(judgement, language)
        return
    for name, reading in judgement.signals.items():
        let, value = judgement.rule.lets[name], judgement.values.get(name)
        if value is not None and let.type != TRUTH:
            text = f"{_short(let.source)} = {show(value, let.type)}"
            yield Evidence(source_of(reading.signal, reading.subject), None, text)
    for reading in judgement.readings:
        labels = ",".join(f"{name}={value}" for name, value in reading.labels)
        name = f"{reading.signal}{{{labels}}}" if labels else reading.signal
        value = reading.value if isinstance(reading.value, str) else FORMATS["any"](reading.value)
        yield Evidence(source_of(reading.signal, reading.subject), None, f"{name} = {value}")


def _in_the_rules_words(judgement: Judgement, language: str) -> Iterator[Evidence]:
    """The evidence that the rule words itself; a text with something in it that is not known is left out."""
    subject = judgement.subject
    values = {**judgement.values, **places([subject] if subject else [], subject, judgement.job, language)}
    for text in judgement.rule.evidence:
        template = in_language(text, language)
        names = names_in(template)
        if any(values.get(name) in (None, "") for name in names):
            continue
        reading = next((judgement.signals[name] for name in names if name in judgement.signals), None)
        source = source_of(reading.signal, reading.subject) if reading else str(subject or "the job")
        yield Evidence(source, None, render(template, values, language))


def _short(source: str) -> str:
    """An expression on one line that is not too long."""
    words = " ".join(source.split())
    return words if len(words) <= LONGEST_SOURCE else words[: LONGEST_SOURCE - 1] + "…"


def show(value: Any, kind: Type) -> str:
    """A value in the form that suits its unit."""
    return render(f"{{value:{natural(kind)}}}", {"value": value})


def source_of(signal: str, subject: Subject) -> str:
    """The name of a measurement: `record of rank 1 on node-a`."""
    return _SOURCES.get(_COLLECTOR_OF.get(signal, ""), "{}").format(subject)
