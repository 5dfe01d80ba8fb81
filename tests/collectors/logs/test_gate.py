import pytest

from aidiag.collectors.logs import gate
from aidiag.collectors.logs.pattern import PatternError


@pytest.mark.parametrize(
    "expression",
    [
        rb"Channel \d+/\d+ : ((?:\d+\s*)+)$",
        rb"abcdefg(\d{1,40}x?){3,50}",
        rb"abcdefg(?:a|b+)*",
        rb"abcdefg(?=(x+)+)",
    ],
)
def test_a_repeat_inside_a_repeat_is_refused(expression: bytes) -> None:
    """Nested quantifiers can take exponential time."""
    with pytest.raises(PatternError, match="inside a repeat"):
        gate.check(expression)


@pytest.mark.parametrize(
    "expression",
    [
        rb"abcdefg.*.*",
        rb"abcdefg\d+(?:\d+)x",
        rb"abcdefg\d{1,100}-?\d{1,100}",
        rb"abcdefg(?P<a>\s+)(?P<b>\s+)",
    ],
)
def test_long_repeats_that_touch_are_refused(expression: bytes) -> None:
    """Two neighbours can share out one run of characters in many ways."""
    with pytest.raises(PatternError, match="touch"):
        gate.check(expression)


def test_a_long_repeat_at_the_start_is_refused() -> None:
    """It would be tried at every character of a line."""
    with pytest.raises(PatternError, match="start"):
        gate.check(rb"(\S+):(\d+) NCCL INFO")


@pytest.mark.parametrize("expression", [rb"abcdefg \d{1,19}: \S{1,255} x", rb"a?(?:bc)?abcdefg[ \t]{1,32}.{0,1000}"])
def test_harmless_expressions_pass(expression: bytes) -> None:
    """Repeats with fixed text between them, and short ones, are fine."""
    gate.check(expression)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (rb"ab\d+ out of memory \(GPU \d+", {b" out of memory (GPU "}),
        (rb"(?:CUDA|HIP) out", {b" out"}),
        (rb"x (?:Killed|Aborted)", {b"Killed", b"Aborted"}),
        (rb"(?P<a>Init) (?P<b>START) \d", {b"Init START "}),
        (rb"(?:maybe )?(?:a{2,3}certain) .", {b"certain "}),
        (rb"grad norm: \d (?:huge drop|tiny drop)", {b"huge drop", b"tiny drop"}),
    ],
)
def test_the_literal_is_the_longest_text_that_every_match_holds(expression: bytes, expected: set[bytes]) -> None:
    """Optional parts do not count, alternatives count together, and what stands in ordinary lines counts last."""
    if min(map(len, expected)) < gate.LITERAL_MIN_BYTES:
        with pytest.raises(PatternError, match="shorter"):
            gate.required_literals(expression)
    else:
        assert set(gate.required_literals(expression)) == expected


@pytest.mark.parametrize("expression", [rb"\d{3} \w{2}", rb"(?:abcdefgh)?", rb"(?:abcdefgh|\d)"])
def test_an_expression_without_fixed_text_is_refused(expression: bytes) -> None:
    """The scanner could not find its lines."""
    with pytest.raises(PatternError, match="fixed text"):
        gate.required_literals(expression)
