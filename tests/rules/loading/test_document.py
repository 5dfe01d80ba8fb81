"""YAML files as data with places."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aidiag.rules.loading.document import read_document
from aidiag.rules.loading.errors import RuleError


def read(text: str) -> object:
    """The data of a text."""
    return read_document("rule.yaml", text.encode()).data


def test_scalars_are_those_of_yaml_1_2() -> None:
    """Words that YAML 1.1 takes for truths, times or numbers are texts."""
    text = "[no, on, 12:30, 1_000, 0o7, 2026-11-30, .inf, yes, true, ~, 3, -4.5e3, 1e3, '5', \"x\", 10%]"
    wanted = [
        "no",
        "on",
        "12:30",
        "1_000",
        "0o7",
        "2026-11-30",
        ".inf",
        "yes",
        True,
        None,
        3,
        -4500.0,
        1000.0,
        "5",
        "x",
        "10%",
    ]

    assert wanted == read(text)


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "rule.yaml:3:1", "stands here twice"),
        ("a: !!python/object/apply:os.system [ls]", "rule.yaml:1:4", "the tag"),
        ("a: !custom x", "rule.yaml:1:4", "the tag !custom is not used here"),
        ("a: [1, 2", "rule.yaml:2:1", "expected ',' or ']'"),
        ("a: &x [*x]", "rule.yaml:1:4", "nested too deeply"),
        ("? [a]\n: b", "rule.yaml:1:1", "a key must be a word"),
        ("", "rule.yaml:1:1", "empty"),
        ("a: 1\n---\nb: 2\n", "rule.yaml:2:1", "expected a single document"),
        ("\ta: 1", "rule.yaml:1:1", "cannot start any token"),
    ],
)
def test_refused_with_its_place(text: str, place: str, message: str) -> None:
    """What is no plain data is refused with file, line and column."""
    with pytest.raises(RuleError) as caught:
        read(text)

    assert str(caught.value).startswith(place)
    assert message in str(caught.value)


def test_a_bomb_of_aliases_is_refused() -> None:
    """Aliases that multiply are refused before they fill the memory."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]

    with pytest.raises(RuleError, match="too many values"):
        read("\n".join(lines))


def test_too_large_and_not_text() -> None:
    """A file that is too large or not UTF-8 is refused."""
    with pytest.raises(RuleError, match="larger than 256 KiB"):
        read_document("rule.yaml", b"a" * (300 << 10))
    with pytest.raises(RuleError, match=r"rule\.yaml:2:1: not UTF-8"):
        read_document("rule.yaml", b"a: 1\nb: \xff\xfe")


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("中: 文\nwhen: abc def\n", 2, 11),
        ("when:   'abc def'\n", 1, 14),
        ('when: "abc def"\n', 1, 12),
        ("when: |\n  abc\n  def\n", 3, 3),
        ("when: >-\n    abc\n    def\n", 3, 5),
        ("when: abc\n  def\n", 2, 3),
    ],
)
def test_a_character_of_a_text_has_a_place(text: str, line: int, column: int) -> None:
    """The fourth other-than-blank character is found again, however the text was written."""
    document = read_document("rule.yaml", text.encode())
    offset = document.data["when"].index("d")

    error = document.error(("when",), "here", offset=offset)

    assert (line, column) == (error.line, error.column)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda b: b.decode("latin-1")))
def test_any_text_is_data_or_a_clear_error(text: str) -> None:
    """No text makes the reader crash."""
    try:
        read(text)
    except RuleError as error:
        assert "\n" not in str(error)
