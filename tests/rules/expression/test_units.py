"""Literals and the algebra of units."""

from __future__ import annotations

import pytest

from aidiag.rules.expression.errors import ExpressionError
from aidiag.rules.expression.units import PLAIN, SECONDS, TIMESTAMP, Dimension, quantity, read_quantity


@pytest.mark.parametrize(
    ("text", "value", "dimension"),
    [
        ("10%", 0.1, PLAIN),
        ("30s", 30.0, SECONDS),
        ("2ms", 0.002, SECONDS),
        ("5min", 300.0, SECONDS),
        ("4GiB", 4 * 1024.0**3, Dimension(bytes=1)),
        ("4GB", 4e9, Dimension(bytes=1)),
        ("100Gbit/s", 12.5e9, Dimension(bytes=1, seconds=-1)),
        ("1.5e3", 1500.0, PLAIN),
        (7, 7.0, PLAIN),
        (" -3 s ", -3.0, SECONDS),
    ],
)
def test_a_setting_is_read_in_base_units(text: object, value: float, dimension: Dimension) -> None:
    """A setting with its unit becomes a number in base units."""
    found = read_quantity(text)

    assert pytest.approx(value) == found.value
    assert dimension == found.dimension


@pytest.mark.parametrize("wrong", ["fast", "", "1e999", float("nan"), True, None, [1], "10 s s"])
def test_what_is_no_quantity_is_refused(wrong: object) -> None:
    """A setting that is no finite number with an optional unit is refused."""
    with pytest.raises(ExpressionError):
        read_quantity(wrong)


def test_an_unknown_unit_is_answered_with_the_nearest() -> None:
    """A mistyped unit gets a hint, at the place of the unit."""
    with pytest.raises(ExpressionError, match="did you mean GiB") as caught:
        quantity("4", "Gib", offset=10)

    assert 11 == caught.value.offset


def test_dimensions_multiply_and_divide() -> None:
    """Bytes over seconds is a rate, and a rate times seconds is bytes again."""
    rate = Dimension(bytes=1).over(SECONDS)

    assert "bytes per second" == str(rate)
    assert Dimension(bytes=1) == rate.times(SECONDS)
    assert ("a plain number", "a point in time") == (str(PLAIN), str(TIMESTAMP))
