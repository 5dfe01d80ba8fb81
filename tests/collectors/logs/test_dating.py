"""When messages of followed logs happened."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from aidiag.collectors.logs.dating import BELIEVED_SECONDS, Look, date
from aidiag.collectors.observation import Event

OFFSET = 1e9


def event(unix: float | None = None, order: int = 0) -> Event:
    """A message whose line states a time, or none."""
    return Event("cuda_error", None, 1000.0, {}, None if unix is None else unix + OFFSET, None, order)


def times(*stated: float | None, since: float = 990.0, changed: float = 999.0) -> list[float | None]:
    """The times of messages that are seen at 1000, by the times that their lines state."""
    look = Look(1000.0, since, changed + OFFSET - OFFSET, OFFSET)
    return [one.time for one in date([event(time) for time in stated], look, oldest=500.0)]


def test_the_time_of_the_line_counts() -> None:
    """What happened long ago is not told as happening now; a clock a little ahead of ours does not reach the future."""
    assert times(100.0, 700.0, 998.0, 1003.0, since=-inf) == [100.0, 700.0, 998.0, 1000.0]


def test_a_line_without_a_time() -> None:
    """It was written by the last change of the file, after what was read before and before the next line with a time."""
    assert times(None) == [999.0]
    assert times(None, changed=1005.0) == [1000.0]
    assert times(None, changed=1.0) == [990.0]
    assert times(None, 995.0, None, 997.0, None) == [995.0, 995.0, 997.0, 997.0, 999.0]


def test_lines_of_unknown_age_are_not_told() -> None:
    """Of an old log only what follows a time that is young enough is known to be of now."""
    assert times(None, None, since=-inf) == []
    assert times(None, 400.0, None, 600.0, None, since=-inf) == [400.0, 600.0, 999.0]


def test_a_time_of_another_zone_is_not_believed() -> None:
    """A container in UTC on a host with a zone: what was added just now did not happen eight hours ago, or in the future."""
    for hours in (-8, 8):
        look = Look(1000.0, 990.0, 999.0, OFFSET)
        (dated,) = date([event(995.0 + hours * 3600)], look, oldest=500.0)
        assert (dated.time, dated.unix) == (999.0, None)


@given(
    st.lists(st.none() | st.floats(0, 3000), max_size=8),
    st.just(-inf) | st.floats(0, 1000),
    st.floats(-1e6, 1e6),
    st.floats(-inf, 1000),
)
def test_no_time_lies_in_the_future(stated: list[float | None], since: float, changed: float, oldest: float) -> None:
    """Whatever clocks say: events keep their order, none is told twice, and none is later than now."""
    events = [event(time, order) for order, time in enumerate(stated)]
    told = list(date(events, Look(1000.0, since, changed, OFFSET), oldest))
    assert [one.order for one in told] == sorted({one.order for one in told})
    for one in told:
        assert one.time is not None
        assert since - BELIEVED_SECONDS - 1e-3 <= one.time <= 1000.0
