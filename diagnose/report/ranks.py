"""One row for each rank, how far it got and what it was doing: from readings of a job that runs, or from a record."""

from __future__ import annotations

from collections.abc import Mapping

from aidiag.collectors.comm_split import COMM
from aidiag.collectors.observation import Labels, Sample
from aidiag.collectors.rank_samples import state_of
from aidiag.collectors.rank_state import RankState
from aidiag.collectors.subject import Subject
from aidiag.diagnose.report.model import RankRow
from aidiag.trainer_shim.model import Record

Readings = Mapping[tuple[str, Labels], Sample]


def rank_rows(ranks: Mapping[Subject, Readings]) -> tuple[RankRow, ...]:
    """The rows in rank order."""
    rows = [_row(subject, readings) for subject, readings in ranks.items() if subject.rank is not None]
    return tuple(sorted(rows, key=lambda row: (row.rank, row.host)))


def record_row(record: Record) -> RankRow:
    """Where a rank stood at its last sign of life, by its record. How its process ended, no record says."""
    identity, state = record.identity, record.state
    steps = state.steps + state.steps_skipped
    alone = {COMM: 0.0} if identity.world_size == 1 else {}
    comm = [seconds for phase, seconds in {**alone, **state.phase_seconds}.items() if phase == COMM]
    return RankRow(
        rank=identity.rank,
        host=identity.host,
        state=state_of(state).words,
        phase=state.phase,
        steps=state.steps,
        step_seconds=_mean(state.step_seconds, steps),
        own_seconds=_mean_own(state.step_seconds, comm, steps),
        pid=identity.pid,
        last_seen=state.unix,
        detail="its shim let go of it" if state.stage == "detached" else "",
    )


def _row(subject: Subject, readings: Readings) -> RankRow:
    steps = _number(readings, "steps_total")
    all_steps = None if steps is None else steps + (_number(readings, "steps_skipped_total") or 0.0)
    seconds = _number(readings, "step_seconds_total")
    exit_code = _number(readings, "rank_exit_code")
    state, detail = _state(readings, exit_code)
    return RankRow(
        rank=subject.rank or 0,
        host=subject.host,
        state=state,
        phase=_text(readings, "rank_phase"),
        steps=None if steps is None else int(steps),
        step_seconds=_mean(seconds, all_steps),
        own_seconds=_mean_own(seconds, _comm_seconds(readings), all_steps),
        last_seen=_number(readings, "rank_heartbeat_timestamp_seconds"),
        detail=detail,
    )


def _mean(seconds: float | None, steps: float | None) -> float | None:
    """Seconds a step; skipped steps took their time, too."""
    return seconds / steps if steps and seconds is not None else None


def _mean_own(seconds: float | None, comm_seconds: list[float], steps: float | None) -> float | None:
    """Seconds a step without communication, None where communication was not measured: it is not zero then."""
    return _mean(seconds - sum(comm_seconds), steps) if comm_seconds and seconds is not None else None


def _comm_seconds(readings: Readings) -> list[float]:
    """What was measured of communication, split into waiting and wire time or not."""
    return [
        sample.value
        for (signal, labels), sample in readings.items()
        if signal == "step_phase_seconds_total"
        and dict(labels).get("phase", "").startswith("comm")
        and not isinstance(sample.value, str)
    ]


def _state(readings: Readings, exit_code: float | None) -> tuple[str, str]:
    if exit_code is not None:
        if exit_code < 0:
            return "killed", f"signal {-int(exit_code)}"
        return ("finished", "") if exit_code == 0 else ("failed", f"exit code {int(exit_code)}")
    code = _number(readings, "rank_state_code")
    state = RankState.of(code).words
    if _number(readings, "rank_up") == 0.0 and state not in ("finished", "failed"):
        return "gone", "its process ended; how is not known"
    return state, ""


def _number(readings: Readings, signal: str) -> float | None:
    sample = readings.get((signal, ()))
    return None if sample is None or isinstance(sample.value, str) else sample.value


def _text(readings: Readings, signal: str) -> str | None:
    sample = readings.get((signal, ()))
    return sample.value if sample is not None and isinstance(sample.value, str) else None
