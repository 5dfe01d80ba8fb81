"""Loading rules: built-in and an operator's, thresholds, broken files."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidiag.collectors.signal import Registry
from aidiag.rules.invalid import invalid_findings
from aidiag.rules.loader import BUILT_IN, load_rules

RULE = """\
id: {id}
cause: util_input_bound
title: The queue is long
severity: {severity}
scope: rank
thresholds: {{most: 5, wait: 10s}}
when: queue > most
for: wait
summary: long
why: long
remedy: [{{do: shorten it}}]
"""


def write(folder: Path, name: str, *, id: str = "long_queue", severity: str = "warning", text: str = RULE) -> Path:
    """A rule file."""
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(text.format(id=id, severity=severity) if text is RULE else text)
    return file


def test_the_built_in_rules_are_in_order(registry: Registry) -> None:
    """All built-in rules load without a fault, each from a file of its own name."""
    book = load_rules((), registry)

    assert () == book.errors
    assert 20 <= len(book.rules)
    assert [] == [rule.id for rule in book.rules if Path(rule.path).stem != rule.id]
    assert BUILT_IN == Path(book["input_bound"].path).parents[1]


def test_an_operators_rule_replaces_one_of_the_same_id(small: Registry, tmp_path: Path) -> None:
    """Later folders win, by id; other rules stay."""
    write(tmp_path / "a", "one.yaml")
    write(tmp_path / "a", "two.yaml", id="other")
    write(tmp_path / "b", "mine.yaml", severity="critical")

    book = load_rules([tmp_path / "a", tmp_path / "b"], small, built_in=False)

    assert {"long_queue": "critical", "other": "warning"} == {rule.id: rule.severity for rule in book.rules}


def test_a_rule_can_be_switched_off(registry: Registry, tmp_path: Path) -> None:
    """`enabled: false` with an id switches a rule off; one that is not there is told."""
    write(tmp_path, "off.yaml", text="id: input_bound\nenabled: false\n")
    write(tmp_path, "off2.yaml", text="id: input_bond\nenabled: false\n")

    book = load_rules([tmp_path], registry)

    assert "input_bound" not in {rule.id for rule in book.rules}
    assert ["there is no rule input_bond to switch off"] == [error.message for error in book.errors]


def test_a_broken_file_is_left_out_and_told(small: Registry, tmp_path: Path) -> None:
    """A broken file costs only its own rule; it becomes an error, and a finding with the place and a command."""
    write(tmp_path, "good.yaml")
    broken = write(tmp_path, "broken.yaml", text="id: broken\nseverity: [\n")

    book = load_rules([tmp_path, tmp_path / "absent.yaml"], small, built_in=False)
    findings = invalid_findings(book.errors, 5.0)

    assert ["long_queue"] == [rule.id for rule in book.rules]
    assert [f"{broken}:3:1", f"{tmp_path / 'absent.yaml'}"] == [str(error).split(": ")[0] for error in book.errors]
    assert ["rule_invalid", "rule_invalid"] == [finding.rule for finding in findings]
    assert str(broken) in findings[0].summary
    assert f"aidiag rules lint {broken}" == findings[0].remedy[0].command
    assert len({finding.id for finding in findings}) == 2


def test_two_rules_of_one_id_in_a_folder(small: Registry, tmp_path: Path) -> None:
    """In one folder an id may stand once."""
    write(tmp_path, "a.yaml")
    write(tmp_path, "b.yaml")

    book = load_rules([tmp_path], small, built_in=False)

    assert 1 == len(book.rules)
    assert "long_queue is in" in book.errors[0].message


def test_thresholds_of_operators(small: Registry, tmp_path: Path) -> None:
    """Constants are set by rule and name, in the unit of the rule's own; `for` follows its constant."""
    write(tmp_path, "a.yaml")
    thresholds = {"long_queue": {"most": "12", "wait": "1min"}}

    book = load_rules([tmp_path], small, built_in=False, thresholds=thresholds)

    assert () == book.errors
    assert (12.0, 60.0) == (book["long_queue"].thresholds["most"].value, book["long_queue"].for_seconds)


@pytest.mark.parametrize(
    ("thresholds", "answer"),
    [
        ({"long_quee": {"most": 3}}, "[rules.long_quee]: there is no such rule; did you mean long_queue?"),
        ({"long_queue": {"mots": 3}}, "[rules.long_queue]: the rule has no threshold mots; did you mean most?"),
        ({"long_queue": {"wait": 3}}, "wait is a plain number, expected is seconds; write it like 10s"),
        ({"long_queue": {"most": "3x"}}, "most: unknown unit x"),
        ({"long_queue": {"most": True}}, "most: True is not a number"),
    ],
)
def test_wrong_thresholds_leave_the_rule_as_it_was(
    small: Registry, tmp_path: Path, thresholds: dict[str, dict[str, object]], answer: str
) -> None:
    """A constant that does not fit is told, and the rule keeps its own."""
    write(tmp_path, "a.yaml")

    book = load_rules([tmp_path], small, built_in=False, thresholds=thresholds)

    assert answer in str(book.errors[0])
    assert (5.0, 10.0) == (book["long_queue"].thresholds["most"].value, book["long_queue"].for_seconds)


def test_files_that_others_may_write_are_refused_where_asked(small: Registry, tmp_path: Path) -> None:
    """A daemon does not take rules from files that other users can change."""
    write(tmp_path, "a.yaml").chmod(0o664)

    book = load_rules([tmp_path], small, built_in=False, own_only=True)

    assert () == book.rules
    assert "others may write it" in str(book.errors[0])
    assert load_rules([tmp_path], small, built_in=False).rules


def test_an_unknown_id_is_a_key_error(small: Registry, tmp_path: Path) -> None:
    """A book answers for the rules it has."""
    with pytest.raises(KeyError):
        load_rules([write(tmp_path, "a.yaml")], small, built_in=False)["nothing"]
