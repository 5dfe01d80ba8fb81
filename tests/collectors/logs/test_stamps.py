import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aidiag.collectors.logs.stamps import Stamp

REFERENCE = 1_796_100_000.0  # 1 December 2026


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Times without zone are local: here that is UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("style", "text", "expected"),
    [
        ("iso", "2026-11-30T20:18:39Z", 1796069919.0),
        ("iso", "2026-11-30T20:18:39.250000000Z", 1796069919.25),
        ("iso", "2026-11-30T22:18:39+02:00", 1796069919.0),
        ("iso", "2026-11-30T15:18:39-0500", 1796069919.0),
        ("iso", "2026-11-30 20:18:39,125", 1796069919.125),
        ("iso_boxed", "2026-11-30_20:18:39.5", 1796069919.5),
        ("iso", "2026/11/30 20:18:39", 1796069919.0),
        ("glog", "1130 20:18:39.162555850", 1796069919.16255585),
        ("glog", "709 17:05:38.5", 1783616738.5),
        ("syslog", "Nov 30 20:18:39", 1796069919.0),
        ("syslog", "Dec 31 23:00:00", 1767222000.0),
        ("ctime", "Mon Nov 30 20:18:39 2026", 1796069919.0),
        ("epoch", "1796069923", 1796069923.0),
    ],
)
def test_times_of_every_style(style: str, text: str, expected: float) -> None:
    """Zones count where they are written, and a missing year is the last one in which the time was not in the future."""
    assert Stamp(style, text).unix(REFERENCE) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("text", ["2026-13-30 20:18:39", "2026-11-30 25:18:39", "nonsense", ""])
def test_what_is_no_time_has_no_time(text: str) -> None:
    """A stamp of impossible numbers is unknown, not an error."""
    assert Stamp("iso", text).unix(REFERENCE) is None


@given(st.sampled_from(["iso", "iso_boxed", "glog", "glog_bare", "syslog", "ctime", "epoch"]), st.text(max_size=40))
def test_no_text_is_an_error(style: str, text: str) -> None:
    """Whatever stands in a log."""
    assert Stamp(style, text).unix(REFERENCE) is None or text
