import re

import pytest

from aidiag.collectors.logs import pattern
from aidiag.collectors.logs.catalogue import Message, read_catalogue
from aidiag.collectors.logs.fieldtypes import size_bytes
from aidiag.collectors.logs.pattern import PatternError


def matched(source: str, line: str) -> dict[str, object] | None:
    """The fields of a match, by name."""
    found = re.search(pattern.expression(source), line)
    if not found:
        return None
    values: dict[str, object] = {}
    for field in pattern.fields(source):
        if found[field.group] is not None:
            values[field.name] = field.type.value(found[field.group])
    return values


def test_fixed_text_is_taken_literally() -> None:
    """Characters that mean something to `re` are plain text in a pattern."""
    assert matched("Call to x() failed [1.5] (a|b) $", "!! Call to x() failed [1.5] (a|b) $") == {}
    assert matched("Call to x() failed [1.5]", "Call to x() failed [1x5]") is None


def test_fields_have_the_type_that_is_written() -> None:
    """Numbers become numbers, sizes bytes, and everything else text."""
    line = "rank 7 of 0x1f took 1.5 s for 20.00 MiB at node-b<4711> : No route to host"
    fields = matched(
        "rank <rank:int> of <comm:hex> took <seconds:float> s for <b:size> at <peer:word> : <error:text>", line
    )
    assert fields == {
        "rank": 7,
        "comm": "0x1f",
        "seconds": 1.5,
        "b": 20 << 20,
        "peer": "node-b<4711>",
        "error": "No route to host",
    }


def test_a_loose_field_ends_at_the_first_text_that_may_follow() -> None:
    """`text` and `word` take as little as they can."""
    assert matched("peer <peer:word>: <error:text>, retrying", "peer a:1: x, y, retrying, retrying") == {
        "peer": "a:1",
        "error": "x, y",
    }


def test_a_part_may_be_missing_or_one_of_several() -> None:
    """`{a}` is optional and `{a|b}` a choice; a field may stand in each part."""
    source = "error {status=<status:int>|number <status:int>}{ (<name:word>)} end"
    assert matched(source, "error status=5 (flush) end") == {"status": 5, "name": "flush"}
    assert matched(source, "error number 12 end") == {"status": 12}
    assert matched(source, "error 12 end") is None


def test_a_field_at_the_end_may_be_followed_by_nothing_or_by_an_optional_part() -> None:
    """The end of the line ends a field when the part after it is missing."""
    source = "failed with error <error:text>{ errno <errno:int>}"
    assert matched(source, "failed with error Bad address errno 14") == {"error": "Bad address", "errno": 14}
    assert matched(source, "failed with error Bad address") == {"error": "Bad address"}


def test_constant_texts_words_with_a_beginning_and_unnamed_fields() -> None:
    """`<x=A|B>` keeps which text it was, `<x:A*>` the word, `<_:...>` nothing."""
    source = "<name:NCCL_*> - <what=Init|Destroy> <edge=START|COMPLETE> after <_:int>s"
    assert matched(source, "NCCL_IB_HCA - Destroy START after 3s") == {
        "name": "NCCL_IB_HCA",
        "what": "Destroy",
        "edge": "START",
    }


def test_two_blanks_are_any_run_of_blanks() -> None:
    """Aligned output is matched whatever the width of its columns."""
    assert matched("pid:  <pid:int>", "pid:        12") == {"pid": 12}
    assert matched("pid:  <pid:int>", "pid:12") is None


def test_a_backslash_makes_the_next_character_plain() -> None:
    """Braces and angle brackets can be written."""
    assert matched(r"set \{a\} <0> \<b:c>", "set {a} <0> <b:c>") == {}


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("", "empty"),
        ("<x:text> foo", "begin with fixed text"),
        ("abcdef<x:text><y:int>", "touch"),
        ("abcdef<x:word>{ <y:text>}<z:text>", "touch"),
        ("abcdef<x:foo>", "no such type"),
        ("abcdef{x", "not closed"),
        ("abcdef}x", "closes nothing"),
        ("abcdef\\", "backslash"),
    ],
)
def test_a_pattern_that_cannot_work_is_refused_with_the_reason(source: str, reason: str) -> None:
    """Mistakes in a pattern are found when it is read."""
    with pytest.raises(PatternError, match=reason):
        pattern.expression(source)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 bytes", 0),
        ("512 bytes", 512),
        ("1.50 GiB", 3 << 29),
        ("20.00 MiB", 20 << 20),
        ("1024kB", 1 << 20),
        ("2 B", 2),
    ],
)
def test_sizes_are_in_bytes(text: str, expected: int) -> None:
    """The units of torch (KiB, MiB, GiB) and of the kernel (kB) are all powers of 1024."""
    assert size_bytes(text) == expected


@pytest.mark.parametrize("message", [pytest.param(one, id=one.id) for one in read_catalogue()])
def test_an_outline_takes_what_its_pattern_takes(message: Message) -> None:
    """And more perhaps, but never less; and it has an end that cannot be drawn out."""
    for written in message.patterns:
        outline = re.compile(pattern.outline(written.source).encode())
        assert not outline.fullmatch(b"")
        for line in message.examples:
            found = re.search(written.expression.encode(), line.encode())
            assert found is None or outline.search(line.encode(), found.start(), found.end()), written.source
