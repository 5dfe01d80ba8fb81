"""Rule files: what they may say, and what is answered to the rest."""

from __future__ import annotations

import pytest

from aidiag.collectors.signal import Registry
from aidiag.rules.loading.document import read_document
from aidiag.rules.loading.errors import RuleError
from aidiag.rules.loading.rule_file import read_rule
from aidiag.rules.model import Explained, Rule

RULE = """\
id: long_queue
cause: util_input_bound
title: {en: The queue is long, zh: 队列过长}
severity: warning
scope: rank
thresholds:
  most: {value: 5, because: measured}
  hold: 10s
let:
  length: avg(queue, 20s)
when: length > most and p50_of(length) > 1
for: hold
keep_for: 30s
explains: [util_low, "rule:other@host", "early@rank anytime"]
summary: "{who} has {length:count} waiting"
why: |
  It is long.
remedy:
  - do: {en: Shorten it, zh: 缩短}
    command: shorten {rank}
    if: length > 10
"""


def load(text: str, registry: Registry) -> tuple[Rule | None, list[RuleError]]:
    """The rule of a text and what is wrong with it."""
    return read_rule(read_document("rule.yaml", text.encode()), registry)


def test_a_rule(small: Registry) -> None:
    """A rule file becomes a rule: texts by language, times in seconds, constants with where they come from."""
    rule, errors = load(RULE, small)

    assert [] == errors
    assert rule is not None
    assert ({"en": "The queue is long", "zh": "队列过长"}, 10.0, 30.0) == (
        rule.title, rule.for_seconds, rule.keep_for_seconds,
    )  # fmt: skip
    assert ("measured", 5.0) == (rule.thresholds["most"].because, rule.thresholds["most"].value)
    assert (Explained("util_low"), Explained("other", True, "host"), Explained("early", False, "rank", True)) == (
        rule.explains
    )
    assert ("rank", "It is long.") == (rule.culprit, rule.why["en"])


def replaced(old: str, new: str) -> str:
    """The rule with a part changed."""
    assert old in RULE
    return RULE.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new", "answer"),
    [
        ("severity: warning", "severty: warning", "rule.yaml:4:1: severty: unknown key; did you mean severity?"),
        ("severity: warning", "severity: grave", "rule.yaml:4:11: severity: 'grave' is not known here; one of info,"),
        ("avg(queue", "avg(queeu", "rule.yaml:10:15: let.length: queeu is not a signal; did you mean queue?"),
        ("> most and", "> 5s and", "rule.yaml:11:16: when: a plain number is compared with seconds"),
        ("when: length > most and p50_of(length) > 1", "when: length + most", "this is a plain number, not a condition"),
        ("when: length > most and p50_of(length) > 1", "", "rule.yaml:1:1: when is missing; add when: or events:"),
        ("{length:count}", "{lenght:count}", "rule.yaml:15:21: summary: unknown name lenght; did you mean length?"),
        ("{length:count}", "{length:cuont}", "unknown format cuont; did you mean count?"),
        ("{length:count}", "{length:bytes}", "length is in a plain number, not for the format bytes; write {length:number}"),
        ("{length:count}", "{length", "a single brace"),
        ("for: hold", "for: 10", "rule.yaml:12:6: for: a duration is expected here; write 30s"),
        ("for: hold", "for: most", "rule.yaml:12:6: for: most is no duration"),
        ("hold: 10s", "hold: 10x", "unknown unit x"),
        ("hold: 10s", "hold: 10s\n  spare: 3", "thresholds.spare: no condition uses it; remove it"),
        ("length: avg", "queue: avg", "rule.yaml:10:3: let.queue: the name queue has a meaning already"),
        ("id: long_queue", "id: LongQueue", "rule.yaml:1:5: id: LongQueue is not written in snake_case"),
        ("scope: rank", "scope: rack", "scope: 'rack' is not known here; did you mean rank?"),
        ("scope: rank", "", "scope is missing; add scope:"),
        ("util_low,", "util low,", "explains.0: util low is no cause"),
        ("util_low,", "util_lo,", "explains.0: util_lo is no cause; did you mean util_low?"),
        ("cause: util_input_bound", "cause: util_input_bond", "util_input_bond is no cause; did you mean util_input_bound?"),
        ("zh: 缩短}", "zh: 缩短}\n    confrim: x", "remedy.0.confrim: unknown key; did you mean confirm?"),
        ("do: {en: Shorten it, zh: 缩短}", "do: {zh: 缩短}", "remedy.0.do: English is missing; add en:"),
        ("if: length > 10", "if: length", "this is a plain number, not a condition"),
        ("scope: rank", "scope: rank\nevents: [crush]", "events.0: there is no event kind crush; did you mean crash?"),
        ("scope: rank", "scope: rank\neach: loadr", "each: no signal has a label loadr; did you mean loader?"),
        ("scope: rank", "scope: rank\nlead: lenght", "lead: there is no let lenght; did you mean length?"),
        ("scope: rank", "scope: rank\ncheck: a-b", "check: a check says what it observed and expected"),
        ("scope: rank", "scope: rank\nconfidence: 90", "confidence: a number from 0 to 1"),
        ("scope: rank", "scope: rank\nunseen: maybe", "unseen: true or false is expected"),
    ],
)  # fmt: skip
def test_refused(small: Registry, old: str, new: str, answer: str) -> None:
    """A fault is answered in one line, with its place and what helps."""
    rule, errors = load(replaced(old, new), small)
    lines = [str(error) for error in errors]

    assert rule is None
    assert any(answer in line for line in lines), lines
    assert not any("\n" in line for line in lines)


def test_all_faults_are_told_at_once(small: Registry) -> None:
    """Several faults of a file are told together."""
    text = (
        replaced("severity: warning", "severity: grave")
        .replace("avg(queue", "avg(queeu")
        .replace("most and", "msot and")
    )

    assert 3 <= len(load(text, small)[1])


@pytest.mark.parametrize("text", ["[]", "a", "3", "id: {x: 1}\nlet: [1]\nremedy: {}\nthresholds: 3\ntests: x"])
def test_a_file_of_another_shape(small: Registry, text: str) -> None:
    """A file that is no rule at all is refused, not crashed on."""
    rule, errors = load(text, small)

    assert rule is None
    assert errors


def test_fields_of_events_are_names(small: Registry) -> None:
    """In a rule about events their fields can be used, and `event` is the kind."""
    text = RULE.replace("scope: rank", "scope: rank\nevents: [crash]").replace(
        "when: length", 'when: event == "crash" and code != 0 and length'
    )
    rule, errors = load(text, small)

    assert [] == errors
    assert rule is not None
    assert ("crash",) == rule.events
