"""How far ranks got, from copies of the shim's records."""

from __future__ import annotations

from pathlib import Path

from aidiag.diagnose.report.model import JobFacts, RankRow, Report
from aidiag.trainer_shim.model import Record
from aidiag.trainer_shim.reader import read_record

SUFFIX = ".record"


def record_report(path: Path) -> Report:
    """A report that holds the row of one record. Raises trainer_shim.model.RecordError."""
    record = read_record(str(path.resolve()))
    identity = record.identity
    facts = JobFacts(id=identity.job_id, hosts=(identity.host,), world_size=identity.world_size)
    return Report(job=facts, made_at=record.state.unix, ranks=(row_of(record),))


def row_of(record: Record) -> RankRow:
    """Where a rank stood at its last sign of life."""
    identity, state = record.identity, record.state
    communication = state.phase_seconds.get("comm", 0.0 if identity.world_size == 1 else None)
    done = state.steps + state.steps_skipped
    return RankRow(
        rank=identity.rank,
        host=identity.host,
        state=state.stage.replace("_", " "),
        phase=state.phase,
        steps=state.steps,
        step_seconds=state.step_seconds / done if done else None,
        own_seconds=(state.step_seconds - communication) / done if done and communication is not None else None,
        pid=identity.pid,
        last_seen=state.unix,
    )
