"""`aidiag explain`: all that is known about a rule, a cause, a check or a log message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from aidiag.collectors import registry
from aidiag.collectors.logs.catalogue import Message, read_catalogue
from aidiag.diagnose.config import load
from aidiag.diagnose.rulebook import load_rulebook
from aidiag.rules.cause_labels import cause_labels
from aidiag.rules.model import Rule
from aidiag.rules.texts import Text, in_language


class UnknownIdError(Exception):
    """Nothing of that name is known; the text says what may have been meant."""


def explain(name: str, language: str) -> Iterator[str]:
    """The explanation line by line. Raises UnknownIdError."""
    rules = load_rulebook(registry(), load()).rules
    by_rule = {rule.id: rule for rule in rules}
    by_message = {message.id: message for message in read_catalogue()}
    same_cause = [rule for rule in rules if rule.cause == name]
    same_check = [rule for rule in rules if rule.check == name]
    if name in by_rule:
        return _rule(by_rule[name], language)
    if same_cause:
        return _group(_cause(name, language), same_cause, language)
    if same_check:
        return _group(f"{name}: a check, judged by", same_check, language)
    if name in by_message:
        return _message(by_message[name])
    known = {*by_rule, *by_message, *(rule.cause for rule in rules), *(rule.check for rule in rules if rule.check)}
    near = get_close_matches(name, known, 3)
    hint = f"did you mean {' or '.join(near)}?" if near else "`aidiag rules list` lists the rules"
    raise UnknownIdError(f"{name}: no rule, cause, check or log message has this id; {hint}")


def _cause(name: str, language: str) -> str:
    meaning = cause_labels().get(name)
    return f"{name}: {in_language(meaning, language)}\n\nA cause, found by" if meaning else f"{name}: a cause, found by"


def _group(heading: str, rules: Iterable[Rule], language: str) -> Iterator[str]:
    yield heading
    for rule in rules:
        yield ""
        yield from _rule(rule, language)


def _rule(rule: Rule, language: str) -> Iterator[str]:
    def say(text: Text) -> str:
        return " ".join(in_language(text, language).split())

    yield f"{rule.id}: {say(rule.title)}"
    check = f", check {rule.check}" if rule.check else ""
    yield f"  rule for each {rule.scope}, {rule.severity}, cause {rule.cause}{check}, confidence {rule.confidence:.0%}"
    yield ""
    yield f"  says     {say(rule.summary)}"
    yield f"  because  {say(rule.why)}"
    if rule.events:
        yield f"  on       {', '.join(rule.events)}"
    if rule.when is not None:
        yield f"  when     {' '.join(rule.when.source.split())}"
    for name, expression in rule.lets.items():
        yield f"  with     {name} = {' '.join(expression.source.split())}"
    for name, threshold in rule.thresholds.items():
        because = f"  ({threshold.because})" if threshold.because else ""
        yield f"  limit    {name} = {threshold.text}{because}"
    if rule.for_seconds:
        yield f"  holding  for {rule.for_seconds:g} s"
    yield ""
    for number, step in enumerate(rule.remedy, 1):
        yield f"  {number}. {say(step.do)}"
        if step.command:
            yield from (f"       {line}" for line in step.command.splitlines())
        if step.confirm:
            yield f"     to confirm: {say(step.confirm)}"
    if rule.explains:
        yield f"  accounts for  {', '.join(item.label for item in rule.explains)}"
    for text in rule.false_positives:
        yield f"  not when      {text}"
    for text in rule.references:
        yield f"  see           {text}"


def _message(message: Message) -> Iterator[str]:
    versions = f"{message.since or '?'} to {message.until or 'now'}"
    yield f"{message.id}: a message of {message.component} ({message.severity}), event {message.kind}, versions {versions}"
    yield ""
    yield f"  means    {message.meaning}"
    if message.remedy:
        yield f"  do       {message.remedy}"
    for pattern in message.patterns:
        yield f"  pattern  {pattern.source}"
    for example in message.examples:
        yield f"  example  {example}"
