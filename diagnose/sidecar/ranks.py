"""One row for each rank: how far it got and what it is doing."""

from __future__ import annotations

from collections.abc import Mapping

from aidiag.collectors.comm_split import COMM_PHASES
from aidiag.collectors.observation import Labels, Sample
from aidiag.collectors.rank_state import RankState
from aidiag.collectors.subject import Subject
from aidiag.diagnose.report.model import RankRow

Readings = Mapping[tuple[str, Labels], Sample]


def rank_rows(ranks: Mapping[Subject, Readings], unix_offset: float) -> tuple[RankRow, ...]:
    """The rows in rank order. `unix_offset` turns the samples' times into Unix seconds."""
    rows = [_row(subject, readings, unix_offset) for subject, readings in ranks.items() if subject.rank is not None]
    return tuple(sorted(rows, key=lambda row: (row.rank, row.host)))


def _row(subject: Subject, readings: Readings, unix_offset: float) -> RankRow:
    steps = _number(readings, "steps_total")
    seconds = _number(readings, "step_seconds_total")
    own = _own_seconds(readings, seconds)
    exit_code = _number(readings, "rank_exit_code")
    state, detail = _state(readings, exit_code)
    return RankRow(
        rank=subject.rank or 0,
        host=subject.host,
        state=state,
        phase=_text(readings, "rank_phase"),
        steps=None if steps is None else int(steps),
        step_seconds=seconds / steps if steps and seconds is not None else None,
        own_seconds=own / steps if steps and own is not None else None,
        last_seen=_number(readings, "rank_heartbeat_timestamp_seconds"),
        detail=detail,
    )


def _own_seconds(readings: Readings, seconds: float | None) -> float | None:
    """Of `seconds` of steps those without communication; None where nobody has measured that."""
    told = [_number(readings, "step_phase_seconds_total", phase) for phase in COMM_PHASES]
    communication = [one for one in told if one is not None]
    return seconds - sum(communication) if communication and seconds is not None else None


def _state(readings: Readings, exit_code: float | None) -> tuple[str, str]:
    if exit_code is not None:
        if exit_code < 0:
            return "killed", f"signal {-int(exit_code)}"
        return ("finished", "") if exit_code == 0 else ("failed", f"exit code {int(exit_code)}")
    state = RankState.of(_number(readings, "rank_state_code")).words
    if _number(readings, "rank_up") == 0.0 and state not in ("finished", "failed"):
        return "gone", "its process ended; how is not known"
    return state, ""


def _number(readings: Readings, signal: str, phase: str = "") -> float | None:
    sample = readings.get((signal, (("phase", phase),) if phase else ()))
    return None if sample is None or isinstance(sample.value, str) else sample.value


def _text(readings: Readings, signal: str) -> str | None:
    sample = readings.get((signal, ()))
    return sample.value if sample is not None and isinstance(sample.value, str) else None
