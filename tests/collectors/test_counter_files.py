"""Files that hold one number."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aidiag.collectors import subject
from aidiag.collectors.counter_files import ALL_ONES, CounterFile, parse_count, readings
from aidiag.collectors.observation import Absent, Sample

PORT = subject.port("mlx5_0", 1, host="a")
FILES = (CounterFile("good", "good_total", 4), CounterFile("bad", "bad_total"), CounterFile("last", "last_total"))


@pytest.mark.parametrize(
    ("text", "number"),
    [(b"0\n", 0), (b" 42\r\n", 42), (b"0007\n", 7), (b"65535", 65535), (b"4294967295\n", 4294967295)],
)
def test_numbers(text: bytes, number: int) -> None:
    """Leading zeros and line ends of any kind do not matter; a counter at its end is still a number."""
    assert number == parse_count(text)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        b"N/A (no PMA)\n",
        b"-1\n",
        b"0x10",
        b"1.5",
        b"1 2",
        b"\xff\xfe",
        "٣".encode(),
        b"18446744073709551615\n",
    ],
)
def test_what_is_no_number(text: bytes) -> None:
    """Everything else is refused, all ones among it: that is a device that does not answer, not a count."""
    with pytest.raises(ValueError, match="it reads"):
        parse_count(text)


@given(st.binary(max_size=60))
def test_garbage(data: bytes) -> None:
    """Any bytes are a number below all ones, or a ValueError."""
    try:
        number = parse_count(data)
    except ValueError:
        return
    assert 0 <= number < ALL_ONES


@pytest.mark.parametrize(
    "bad", [b"N/A (no PMA)\n", OSError(errno.EINVAL, "Invalid argument"), OSError(errno.EIO, "Input/output error")]
)
def test_bad_file_keeps_its_neighbours(bad: bytes | OSError) -> None:
    """A file that gives an error or a text is absent with that reason; the others have their values."""
    answers: dict[str, bytes | OSError] = {"/f/good": b"10\n", "/f/bad": bad, "/f/last": b"3"}
    first, second, third = readings(FILES, "/f", answers, PORT, 1.0)

    assert (Sample("good_total", PORT, 40.0, 1.0), Sample("last_total", PORT, 3.0, 1.0)) == (first, third)
    assert isinstance(second, Absent)
    assert "/f/bad" in second.reason
    assert second.expected


def test_missing_files() -> None:
    """A missing file is absent; where drivers differ in what they count, it is nothing at all."""
    gone: dict[str, bytes | OSError] = {"/f/bad": FileNotFoundError(errno.ENOENT, "No such file or directory")}

    assert 3 == len(list(readings(FILES, "/f", gone, PORT, 1.0)))
    assert [] == list(readings(FILES, "/f", gone, PORT, 1.0, optional=True))
    assert not any(
        one.expected for one in readings(FILES, "/f", gone, PORT, 1.0, expected=False) if isinstance(one, Absent)
    )
