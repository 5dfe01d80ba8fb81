"""The table of who got how far, of a few ranks and of many."""

from __future__ import annotations

from aidiag.diagnose.report.model import RankRow, Report
from aidiag.diagnose.report.terminal import lines


def table(rows: tuple[RankRow, ...]) -> list[str]:
    """The lines of the table."""
    text = [line for line, _ in lines(Report(ranks=rows))]
    return text[text.index("Ranks:") + 2 :]


def test_a_few_ranks_have_a_line_each() -> None:
    """Each with its host and phase."""
    rows = tuple(RankRow(rank, "node-a", "starting", phase="bootstrap") for rank in range(3))

    assert [line.split()[:4] for line in table(rows)[:3]] == [
        [str(n), "node-a", "starting", "bootstrap"] for n in range(3)
    ]


def test_many_ranks_stand_together_where_they_are_at_one_point_and_those_that_differ_come_first() -> None:
    """One of 64 is missing: it is the first line, the others are the second."""
    rows = tuple(
        RankRow(rank, "" if rank == 40 else f"node-{rank // 8}", "missing" if rank == 40 else "starting", phase=None if rank == 40 else "bootstrap")
        for rank in range(64)
    )  # fmt: skip
    first, second = [line for line in table(rows) if line.strip()][:2]

    assert first.split()[:1] == ["40"]
    assert "missing" in first
    assert second.strip().startswith("0-39, 41-63")


def test_readings_that_differ_keep_their_lines() -> None:
    """The twin: ranks that train at different speeds are not thrown together; what is too much is counted."""
    rows = tuple(RankRow(rank, "a", "training", steps=5, step_seconds=0.1 + rank) for rank in range(20))

    assert sum("training" in line for line in table(rows)) == 16
    assert any("4 more" in line for line in table(rows))
