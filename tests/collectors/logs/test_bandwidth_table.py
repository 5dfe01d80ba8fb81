"""In a table of nccl-tests a bandwidth that collapses is told, and the ordinary growth is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Read = Callable[..., list[Any]]

HEADING = "#       size         count    type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
UNITS = "#        (B)    (elements)                            (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"


def row(size: int, out_of_place: float, in_place: float) -> str:
    """A row of the table."""
    return f"  {size}  {size // 4}  float  sum  -1  100.0  1.0  {out_of_place}  0  100.0  1.0  {in_place}  0\n"


def collapses(events: list[Any]) -> list[Any]:
    """The events about it."""
    return [one for one in events if one.kind == "bandwidth_collapsed"]


def test_a_collapse_is_told_with_its_worst_row(read: Read) -> None:
    """16 MiB reached 20 GB/s; 32 MiB did not reach one."""
    rows = row(1 << 20, 8.0, 8.1) + row(1 << 24, 20.0, 20.2) + row(1 << 25, 0.4, 0.7) + row(1 << 26, 1.0, 20.0)
    (told,) = collapses(read(HEADING + UNITS + rows + "# Avg bus bandwidth : 9\n"))
    assert (told.fields["size"], told.fields["bandwidth"], told.fields["best"]) == (1 << 25, 0.4, 20.2)


@pytest.mark.parametrize(
    "rows",
    [
        row(1 << 20, 8.0, 8.1) + row(1 << 24, 20.0, 20.2) + row(1 << 26, 15.0, 14.0),
        row(1 << 10, 8.0, 8.1) + row(1 << 12, 0.1, 0.2),
        "",
        "  nothing of the sort\n" * 20,
    ],
)
def test_no_collapse_is_not_told(read: Read, rows: str) -> None:
    """Noise, small sizes, and a table without rows."""
    assert not collapses(read(HEADING + UNITS + rows))
