"""Counters: growth through resets, wraps and full counters."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aidiag.collectors.signal import Signal
from aidiag.collectors.subject import port
from aidiag.rules.history.counter import Counter
from aidiag.rules.undecided import Undecided


def counter(values: Any = (), *, step: float = 1.0, bits: int | None = None) -> Counter:
    """A counter with one reading for each value."""
    signal = Signal("errors_total", "counter", "count", "port", "", width_bits=bits)
    series = Counter(signal, port("mlx5_0", 1, host="a"), (), 900.0)
    for number, value in enumerate(values):
        series.add(number * step, float(value))
    return series


def test_growth() -> None:
    """Growth is counted from the start of the window, also between two readings, up to the last reading."""
    series = counter(range(0, 300, 3))

    assert pytest.approx(3.0) == series.rate(99.0, 20.0)
    assert pytest.approx(60.0) == series.delta(99.0, 20.0)
    assert pytest.approx(15.0) == counter(range(0, 100, 30), step=10.0).delta(25.0, 10.0)
    assert 297.0 == series.value(99.0)


def test_a_first_reading_is_a_baseline() -> None:
    """What was counted before the first reading says nothing about now."""
    assert 0.0 == counter([5000] * 30).delta(29.0, 20.0)


def test_a_reset_counts_what_has_been_counted_since() -> None:
    """After a restart from zero the new value is growth."""
    assert pytest.approx(10 + 2 + 17) == counter([*range(990, 1001), 2, *range(3, 20)]).delta(28.0, 28.0)


def test_a_small_fall_is_a_correction() -> None:
    """A sum that falls a little, as workers end, is no restart and adds nothing."""
    assert pytest.approx(20.0) == counter([1000, 1010, 600, 610]).delta(3.0, 3.0)


def test_a_full_counter_knows_nothing() -> None:
    """A counter that stands at its largest value has stopped: its growth is not known."""
    series = counter([65530, 65535, 65535, 65535, 65535], bits=16)

    with pytest.raises(Undecided, match="stopped at its largest value 65535") as caught:
        series.delta(4.0, 4.0)
    assert "perfquery" in caught.value.gaps[0].remedy
    series.add(5.0, 3.0)
    assert 8.0 == series.delta(5.0, 5.0)


def test_a_wrap_is_growth() -> None:
    """A counter that goes on at zero after its end has grown by the difference."""
    near = (1 << 32) - 100
    assert pytest.approx(150.0) == counter([near, near + 50, 50], bits=32).delta(2.0, 2.0)


def test_growth_that_was_seen_is_a_change() -> None:
    """One rise is enough to say that it changed; that it did not needs half of the window."""
    assert counter([0, 1]).changed(1.0, 100.0)
    with pytest.raises(Undecided):
        counter([0, 0]).changed(1.0, 100.0)
    assert not counter([0] * 100).changed(99.0, 100.0)


def test_old_readings_are_stale() -> None:
    """A counter that is no longer read is undecided, though its last value can be asked for."""
    series = counter([1, 2, 3])

    with pytest.raises(Undecided, match="last read 48 s ago"):
        series.rate(50.0, 20.0)
    assert 3.0 == series.last(50.0, 60.0)
    with pytest.raises(Undecided, match="not read in the last 20 s"):
        series.last(50.0, 20.0)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 50), min_size=3, max_size=200), st.integers(2, 100))
def test_growth_over_all_is_the_sum_of_what_was_added(growths: list[int], seconds: int) -> None:
    """However unevenly it grows, nothing is lost or counted twice."""
    total, values = 0, [0]
    for growth in growths:
        total += growth
        values.append(total)
    series = counter(values)
    now = float(len(values) - 1)

    assert pytest.approx(total) == series.delta(now, now)
    if now >= seconds:
        assert pytest.approx(values[-1] - values[-1 - seconds]) == series.delta(now, float(seconds))
