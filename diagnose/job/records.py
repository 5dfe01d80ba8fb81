"""Copies of the shim's records in the job folder, so that a job can be judged after its host's memory is gone."""

from __future__ import annotations

import contextlib
from pathlib import Path

from aidiag.collectors.collector import Context
from aidiag.collectors.records import records_of
from aidiag.diagnose.job.folder import write_atomically
from aidiag.diagnose.report.model import JobFacts, RankRow, Report
from aidiag.diagnose.report.ranks import record_row
from aidiag.trainer_shim.model import RecordError
from aidiag.trainer_shim.reader import read_record

SUFFIX = ".record"
COPIES_CAP = 256


def copy_records(context: Context, folder: Path) -> int:
    """Copy the newest records of the context's job into `folder` and say how many. What cannot be copied is left out."""
    if folder.is_symlink():
        return 0
    copied: set[Path] = set()
    finder = records_of(context)
    newest_first = sorted(finder.find(), key=lambda found: -found.record.identity.attached_unix)
    for found in newest_first[:COPIES_CAP]:
        target = folder / f"rank-{found.record.identity.rank}-{found.owner.pid}{SUFFIX}"
        if target in copied:
            continue  # a container's first process has the same id each time that it is started
        with contextlib.suppress(OSError, RecordError):
            content = finder.content(found)
            folder.mkdir(exist_ok=True)
            write_atomically(target, content)
            copied.add(target)
    if finder is not context.records:
        finder.close()
    return len(copied)


def copied_rows(folder: Path) -> list[RankRow]:
    """How far ranks got by the copies in a folder, the oldest first. What is no whole copy is left out."""
    rows = []
    for path in sorted(folder.glob(f"*{SUFFIX}"))[:COPIES_CAP]:
        with contextlib.suppress(RecordError):
            rows.append(record_row(read_record(str(path))))
    return sorted(rows, key=lambda row: row.last_seen or 0.0)


def record_report(path: Path) -> Report:
    """A report that holds the row of one record. Raises trainer_shim.model.RecordError, for links, too."""
    record = read_record(str(path))
    identity = record.identity
    facts = JobFacts(id=identity.job_id, hosts=(identity.host,), world_size=identity.world_size)
    return Report(job=facts, made_at=record.state.unix, ranks=(record_row(record),))
