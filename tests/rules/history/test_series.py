"""Gauges and texts over time: bounded memory, gaps, questions about windows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aidiag.collectors.signal import Signal
from aidiag.collectors.subject import rank
from aidiag.rules.history.series import LARGEST_POINTS, Gauge
from aidiag.rules.undecided import Undecided

R0 = rank(0, host="a", job="j")


def gauge(values: Any = (), *, step: float = 1.0, kind: str = "gauge", max_age: float = 30.0) -> Gauge[Any]:
    """A series with one reading for each value; None leaves one out."""
    signal = Signal("queue", kind, "count", "rank", "", max_age_seconds=max_age)  # type: ignore[arg-type]
    series: Gauge[Any] = Gauge(signal, R0, (), 900.0)
    for number, value in enumerate(values):
        if value is not None:
            series.add(number * step, value)
    return series


def test_a_value_holds_until_the_next() -> None:
    """Between two readings the older one is the value."""
    series = gauge([1.0, 2.0, 3.0], step=10.0)

    assert (1.0, 2.0, 3.0) == (series.value(9.0), series.value(10.0), series.value(25.0))


def test_means_weigh_by_time() -> None:
    """Mean and quantiles weigh a value by how long it held."""
    series = gauge([1.0] * 30 + [4.0] * 11)

    assert pytest.approx((1.0 * 30 + 4.0 * 10) / 40) == series.avg(40.0, 40.0)
    assert (1.0, 4.0) == (series.p50(40.0, 40.0), series.p99(40.0, 40.0))
    assert (1.0, 4.0, 3.0) == (series.min(40.0, 40.0), series.max(40.0, 40.0), series.delta(40.0, 40.0))


def test_a_window_needs_readings_for_half_of_it() -> None:
    """With less than half of the window seen there is no answer; a change that was seen is one all the same."""
    series = gauge([1.0, 2.0, 2.0, 2.0])

    with pytest.raises(Undecided, match="seen for 3 s of the last 20 s only"):
        series.avg(3.0, 20.0)
    assert series.changed(3.0, 20.0)
    with pytest.raises(Undecided):
        gauge([1.0, 1.0]).changed(1.0, 20.0)


def test_a_gap_is_not_bridged() -> None:
    """Where no reading came for longer than a reading may be old, the value is not known afterwards either."""
    series = gauge([1.0] * 11)
    series.add(100.0, 5.0)

    with pytest.raises(Undecided, match="last read"):
        series.value(70.0)
    assert (1.0, 5.0) == (series.value(20.0), series.value(100.0))
    with pytest.raises(Undecided):
        series.avg(100.0, 40.0)
    assert 1.0 == series.last(70.0, 60.0)


def test_what_stays_takes_no_memory() -> None:
    """A value that does not change is kept as the two ends of its run."""
    series = gauge([7.0] * 500)

    assert 2 == len(series.times)
    assert (7.0, 7.0) == (series.value(250.0), series.avg(499.0, 300.0))


def test_memory_is_bounded() -> None:
    """However many readings come, and however fast, only so many are kept, and none older than needed."""
    quick = gauge([float(n % 7) for n in range(50_000)], step=0.01)
    slow = gauge([float(n % 7) for n in range(5_000)])

    assert len(quick.times) <= LARGEST_POINTS + 64
    assert 900 <= len(slow.times) <= 900 + 66


def test_late_and_missing_readings_are_left_out() -> None:
    """A reading older than the newest, and one that is not a number, change nothing."""
    series = gauge([1.0, 2.0])
    series.add(0.5, 9.0)
    series.add(2.0, float("nan"))

    assert (2.0, 1.0) == (series.value(2.0), series.age(2.0))


def test_texts() -> None:
    """Words are kept like numbers."""
    series = gauge(["off"] * 5 + ["on"] * 5, kind="text")

    assert ("on", "off", True) == (series.value(9.0), series.first(9.0, 9.0), series.changed(9.0, 9.0))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.5, 40.0), st.integers(0, 3)), min_size=1, max_size=60),
    st.floats(0, 1),
    st.floats(1, 300),
)
def test_answers_are_those_of_all_readings(readings: list[tuple[float, int]], part: float, seconds: float) -> None:
    """Runs and gaps are kept without loss: the value at any time is that of the last reading, unless it was stale."""
    series, time = gauge(), 0.0
    kept: list[tuple[float, int]] = []
    for pause, value in readings:
        time += pause
        series.add(time, float(value))
        kept.append((time, value))
    now = part * (time + 50.0)
    last = max((reading for reading in kept if reading[0] <= now), default=None)
    if last is None or now - last[0] > 30.0:
        with pytest.raises(Undecided):
            series.value(now)
    else:
        assert last[1] == series.value(now)
        try:
            rounding = 1e-9
            assert (
                series.min(now, seconds) - rounding <= series.avg(now, seconds) <= series.max(now, seconds) + rounding
            )
        except Undecided as reason:
            assert "only" in str(reason)
