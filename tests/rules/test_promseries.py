"""Series in promtool's notation."""

from __future__ import annotations

import pytest

from aidiag.collectors.signal import Registry
from aidiag.collectors.subject import Subject, host, rank
from aidiag.rules.promseries import expand, read_series


@pytest.mark.parametrize(
    ("notation", "readings"),
    [
        ("0+2x3", [0, 2, 4, 6]),
        ("10-2.5x2", [10, 7.5, 5]),
        ("5x2", [5, 5, 5]),
        ("1 2 _ 4", [1, 2, None, 4]),
        ("1 _x2 0+1x1", [1, None, None, 0, 1]),
        ("-1e3x1", [-1000, -1000]),
        ("DOWNx1 ACTIVE", ["DOWN", "DOWN", "ACTIVE"]),
        ("'Phy Test'x1", ["Phy Test", "Phy Test"]),
        ("  ", []),
    ],
)
def test_expand(notation: str, readings: list[object]) -> None:
    """A notation stands for the readings that promtool takes it for."""
    assert readings == expand(notation)


@pytest.mark.parametrize("notation", ["0+2y3", "1,2", "0+x3", "1x999999999", "'open"])
def test_what_is_no_series(notation: str) -> None:
    """What is no notation is refused."""
    with pytest.raises(ValueError, match=r"is no series|more than"):
        expand(notation)


def test_subjects(small: Registry) -> None:
    """Labels name the subject; host and job are usual ones where none is named; the rest are the signal's own."""
    assert (rank(0, host="a", job="j"), ()) == read_series('queue{rank="0"}', small)[1:]
    assert rank(1, host="b", job="k") == read_series('queue{rank="1",host="b",job="k"}', small)[1]
    assert rank(1, host="", job="j") == read_series('queue{rank="1",host="?"}', small)[1]
    assert host("a") == read_series("memory_bytes", small)[1]
    assert Subject("port", "mlx5_0:1", "a") == read_series('errors_total{device="mlx5_0",port="1"}', small)[1]
    assert (("loader", "train"),) == read_series('wait_seconds_total{rank="0",loader="train"}', small)[2]


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("quee{}", "there is no signal quee"),
        ("queue", "the label rank is missing"),
        ('queue{rank="0",x="1"}', "has the labels none beside"),
        ("queue{rank=0}", "is no label"),
        ("queue{", "is no series"),
    ],
)
def test_wrong_names(small: Registry, name: str, answer: str) -> None:
    """A series that names no subject of its signal is refused in words."""
    with pytest.raises(ValueError, match=answer):
        read_series(name, small)
