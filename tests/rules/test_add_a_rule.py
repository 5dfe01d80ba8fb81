"""docs/add-a-rule.md, followed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aidiag.collectors.signal import Registry
from aidiag.collectors.subject import SUBJECT_KINDS
from aidiag.rules.expression.functions import FUNCTIONS
from aidiag.rules.loader import load_rules
from aidiag.rules.loading.rule_file import KEYS
from aidiag.rules.selftest import run_file
from aidiag.rules.texts import BUILT_IN, FORMATS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "add-a-rule.md").read_text()
[EXAMPLE] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def rule_file(tmp_path: Path) -> Path:
    """The page's example in a file of its own."""
    file = tmp_path / "few_batches_ready.yaml"
    file.write_text(EXAMPLE)
    return file


def test_the_example_passes_its_tests(rule_file: Path, registry: Registry) -> None:
    """The rule of the page can be copied, and its tests hold."""
    results = run_file(rule_file, registry)

    assert 3 == len(results)
    assert [] == [result.message for result in results if not result.ok]


def test_the_example_joins_the_built_in_rules(rule_file: Path, registry: Registry) -> None:
    """Put beside the built-in rules it is in force; with a built-in id it replaces, and `enabled: false` switches off."""
    assert "few_batches_ready" in {rule.id for rule in load_rules([rule_file], registry).rules}

    rule_file.write_text(EXAMPLE.replace("id: few_batches_ready", "id: input_bound"))
    assert str(rule_file) == load_rules([rule_file], registry)["input_bound"].path

    rule_file.write_text("id: input_bound\nenabled: false\n")
    assert "input_bound" not in {rule.id for rule in load_rules([rule_file], registry).rules}


def test_its_constants_can_be_set(rule_file: Path, registry: Registry) -> None:
    """An operator may set a threshold alone."""
    book = load_rules([rule_file], registry, thresholds={"few_batches_ready": {"ready_min": 2}})

    assert 2.0 == book["few_batches_ready"].thresholds["ready_min"].value


def test_a_slip_is_told_in_one_line(rule_file: Path, registry: Registry) -> None:
    """A mistyped name is answered with file, line, column and what was meant."""
    rule_file.write_text(EXAMPLE.replace("avg(loader_queue_batches", "avg(loader_queue_batch"))
    [result] = run_file(rule_file, registry)

    assert f"{rule_file}:11:14: let.ready: loader_queue_batch is not a signal; did you mean loader_queue_batches?" == (
        result.message
    )


def test_the_page_is_whole() -> None:
    """Every key, function, format, name and kind of subject stands on the page, which stays one page."""
    words = set(re.findall(r"[a-z_][a-z_0-9]*", PAGE))

    assert set() == {*KEYS, *FUNCTIONS, *FORMATS, *BUILT_IN, *SUBJECT_KINDS} - words
    assert len(PAGE.splitlines()) <= 110
