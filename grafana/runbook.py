"""Runbook pages: a rule's own words, its condition and its tests, as a page for the one on call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from aidiag.collectors.metric import metric_name
from aidiag.collectors.signal import Registry
from aidiag.grafana.placeholder import for_page, source_line
from aidiag.rules.expression.tree import OfEvent, Read
from aidiag.rules.loading.document import read_document
from aidiag.rules.model import RemedyStep, Rule
from aidiag.rules.texts import seconds

HEAD = "<!-- Made from {source} by `python -m aidiag.grafana`. Do not edit: change the rule. -->\n"


def page(rule: Rule, registry: Registry) -> str:
    """The page of one rule."""
    return HEAD.format(source=f"rule {rule.id}") + "\n".join(
        _paragraphs(
            [
                f"# {for_page(rule.title)}",
                _facts(rule),
                f"> {for_page(rule.summary)}",
                "Words in ⟨ ⟩ stand for what was measured.",
                "## What it means",
                for_page(rule.why),
                "## What to do",
                "Cheapest first.",
                *(_step(number, step) for number, step in enumerate(rule.remedy, 1)),
                "## How it is judged",
                *_judgement(rule),
                "## What it looks at",
                *_sources(rule, registry),
                *_doubts(rule),
                *_consequences(rule),
                *_example(rule),
                *_references(rule),
            ]
        )
    )


def index(rules: Sequence[Rule]) -> str:
    """The list of all pages, by severity, and what to do about aidiag's alerts on itself."""
    lines = [HEAD.format(source="the rules"), "# Runbooks", "", "One page for each rule, named as the rule is.", ""]
    for severity in ("critical", "warning", "info"):
        these = [rule for rule in rules if rule.severity == severity]
        if these:
            lines += [f"## {severity.capitalize()}", "", "| page | what was found | cause |", "|---|---|---|"]
            lines += [
                f"| [{rule.id}]({rule.id}.md) | {_cell(for_page(rule.title))} | `{rule.cause}` |" for rule in these
            ]
            lines.append("")
    return "\n".join([*lines, ITSELF])


ITSELF = """\
## aidiag itself

| alert | what it means | what to do |
|---|---|---|
| `AidiagDown` | A sidecar or daemon cannot be scraped: faults on that host are not seen. The job is not touched. | \
`systemctl status aidiag`, or the log of the sidecar container; then `/-/healthy` and `/-/ready` on its port. |
| `AidiagCollectorFailing` | A source of facts cannot be read: rules that need it cannot be judged. | \
`aidiag version --json` on that host says what the collector lacks and what would make it see. |
| `AidiagSeriesCapReached` | More series or findings than aidiag exports: the picture is not whole. | \
`/api/v1/findings` and `/metrics` of that sidecar show which job floods it. |
"""


def _paragraphs(parts: Iterable[str]) -> Iterator[str]:
    for part in parts:
        yield ""
        yield part.rstrip()
    yield ""


def _facts(rule: Rule) -> str:
    facts = {
        "rule": f"`{rule.id}`",
        "severity": rule.severity + (", critical while the fault is worse" if rule.critical else ""),
        "cause": f"`{rule.cause}`",
        "confidence": f"{rule.confidence:g}",
        "blames": "nothing in particular" if rule.culprit == "none" else f"the {rule.culprit}",
    }
    if rule.check:
        facts["check"] = f"`{rule.check}` (`aidiag check --only {rule.check}`)"
    return _table(facts.keys(), [facts.values()])


def _step(number: int, step: RemedyStep) -> str:
    lines = [f"{number}. {for_page(step.do)}"]
    if step.when is not None:
        lines.append(f"\nOnly while `{source_line(step.when)}`.")
    if step.command:
        lines.append(f"\n```\n{for_page({'en': step.command})}\n```")
    if step.confirm:
        lines.append(f"\nIt has helped when: {for_page(step.confirm)}")
    return "\n".join(line if line.startswith(f"{number}.") else _indented(line) for line in lines)


def _judgement(rule: Rule) -> Iterator[str]:
    apart = f", for each `{rule.each}` apart" if rule.each else ""
    merged = (
        f"; all of {'one' if rule.merge == 'moment' else 'a'} {rule.merge} are named in one finding"
        if rule.merge
        else ""
    )
    yield f"Judged for every {rule.scope}{apart}{merged}."
    if rule.when is not None:
        yield "It fires while this is true; where a signal is missing it is undecided, never healthy:"
        yield f"```\n{rule.when.source.strip()}\n```"
    elif rule.events:
        yield "It fires when the event below happens."
    if rule.critical is not None:
        yield f"The finding is critical while:\n\n```\n{rule.critical.source.strip()}\n```"
    if rule.lets:
        yield "Where:"
        yield _table(
            ("name", "is"), ((f"`{name}`", f"`{_cell(source_line(value))}`") for name, value in rule.lets.items())
        )
    if rule.for_seconds or rule.keep_for_seconds:
        held = f"It must hold for {seconds(rule.for_seconds)} first. " if rule.for_seconds else ""
        kept = f"It stays for {seconds(rule.keep_for_seconds)} after it was last true." if rule.keep_for_seconds else ""
        yield held + kept
    if rule.thresholds:
        yield "Thresholds, which `/etc/aidiag/config.toml` overrides:"
        yield _table(
            ("name", "default", "where it comes from"),
            ((f"`{name}`", one.text, _cell(one.because) or "chosen") for name, one in rule.thresholds.items()),
        )
        name, first = next(iter(rule.thresholds.items()))
        yield f'```toml\n[rules.{rule.id}]\n{name} = "{first.text}"\n```'


def _sources(rule: Rule, registry: Registry) -> Iterator[str]:
    expressions = [*rule.lets.values(), rule.when, rule.critical, *(step.when for step in rule.remedy)]
    trees = [node for expression in expressions if expression is not None for node in _nodes(expression.tree)]
    signals = sorted({node.signal for node in trees if isinstance(node, Read)})
    kinds = sorted({*rule.events, *(node.kind for node in trees if isinstance(node, OfEvent))})
    if signals:
        known = (registry.signals[name] for name in signals)
        rows = (
            (f"[`{metric_name(one)}`](../metrics.md)", one.unit.replace("_", " "), _cell(one.help)) for one in known
        )
        yield _table(("metric", "unit", "meaning"), rows)
    if kinds:
        events = (registry.events[name] for name in kinds)
        rows = ((f"`{kind.name}`", ", ".join(kind.fields), _cell(kind.help)) for kind in events)
        yield _table(("event", "facts", "meaning"), rows)
    if rule.evidence:
        yield "The finding shows:"
        yield "\n".join(f"- {for_page(text)}" for text in rule.evidence)


def _doubts(rule: Rule) -> Iterator[str]:
    if rule.false_positives or rule.excludes:
        yield "## When it is something else"
        yield "\n".join(
            [
                *(f"- {text}" for text in rule.false_positives),
                *(
                    f"- It may be `{other.label}` instead. What decides: {for_page(other.decide)}"
                    for other in rule.excludes
                ),
            ]
        )


def _consequences(rule: Rule) -> Iterator[str]:
    if rule.explains:
        yield "## What it accounts for"
        yield "Findings of these kinds, at the same place and time, are shown as its consequences and do not alert."
        yield "\n".join(f"- `{one.label}`, at the same {one.at}" for one in rule.explains)


def _example(rule: Rule) -> Iterator[str]:
    path = Path(rule.path)
    tests = read_document(path, content=path.read_bytes()).data.get("tests") or []
    firing = next((test for test in tests if test.get("expect") not in ("quiet", "undecided", None)), None)
    if firing is not None:
        yield "## Example"
        yield "From the rule's own tests (series as promtool writes them: first value, step, repetitions):"
        yield f"```yaml\n{yaml.safe_dump(firing, sort_keys=False, allow_unicode=True, width=100).rstrip()}\n```"


def _references(rule: Rule) -> Iterator[str]:
    if rule.references:
        yield "## References"
        yield "\n".join(f"- {text}" for text in rule.references)


def _nodes(node: Any) -> Iterator[Any]:
    """A node of an expression's tree and all below it."""
    if isinstance(node, msgspec.Struct):
        yield node
        for name in node.__struct_fields__:
            yield from _nodes(getattr(node, name))
    elif isinstance(node, tuple):
        for part in node:
            yield from _nodes(part)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _indented(text: str) -> str:
    return "\n".join(f"   {line}" if line else "" for line in text.split("\n"))


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(heads)
    lines = [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
