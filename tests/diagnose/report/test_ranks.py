"""The rows of the ranks: own time is known only where communication is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from aidiag.collectors.observation import Sample, labels
from aidiag.collectors.subject import rank
from aidiag.diagnose.job.records import record_report
from aidiag.diagnose.report.ranks import rank_rows
from aidiag.trainer_shim import identity, layout, owner
from aidiag.trainer_shim.timeline import Timeline
from aidiag.trainer_shim.writer import RecordWriter


@pytest.mark.parametrize(
    ("phases", "own"),
    [
        ({"comm_late_peer": 5.0, "comm_wire": 1.0}, 0.4),
        ({"comm": 6.0}, 0.4),
        ({"comm": 2.0, "comm_late_peer": 3.0, "comm_wire": 1.0}, 0.4),
        ({"forward": 6.0}, None),
    ],
)
def test_own_time_of_a_live_rank(phases: Mapping[str, float], own: float | None) -> None:
    """Communication is no own time, split or whole; where it was not measured the own time is not known."""
    who = rank(0, host="a", job="j")
    told = [("steps_total", labels(), 10.0), ("step_seconds_total", labels(), 10.0)]
    told += [("step_phase_seconds_total", labels(phase=phase), seconds) for phase, seconds in phases.items()]
    readings = {(signal, extra): Sample(signal, who, value, 0.0, extra) for signal, extra, value in told}
    (row,) = rank_rows({who: readings})

    assert own == (row.own_seconds and pytest.approx(row.own_seconds))


@pytest.mark.parametrize(
    ("world_size", "phases", "own"),
    [(2, {"forward": 0.4, "comm": 0.6}, 0.4), (2, {"forward": 1.0}, None), (1, {"forward": 1.0}, 1.0)],
)
def test_own_time_of_a_kept_record(
    tmp_path: Path, world_size: int, phases: Mapping[str, float], own: float | None
) -> None:
    """The same from the copy of a record; a job of one rank has no communication."""
    path, who, now = tmp_path / "rank-0-1.record", owner.this_process(), 10**9
    path.write_bytes(bytes(layout.FILE_BYTES))
    with path.open("r+b") as file:
        writer = RecordWriter(file.fileno())
    writer.identity(
        {**identity.identity({"AIDIAG_JOB_ID": "j"}, "/"), **identity.process_identity(who), "world_size": world_size}
    )
    timeline = Timeline(writer, lambda: now)
    writer.publish()
    timeline.start(now)
    for phase, seconds in phases.items():
        timeline.enter(layout.PHASES.index(phase), now)
        now += round(seconds * 1e9)
        timeline.leave(now)
    timeline.optimizer_ended(1, now)
    writer.close()
    (row,) = record_report(path).ranks

    assert own == (row.own_seconds and pytest.approx(row.own_seconds))
