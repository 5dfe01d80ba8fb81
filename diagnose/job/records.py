"""Copies of the shim's records in the job folder, so that a job can be judged after its host's memory is gone."""

from __future__ import annotations

import contextlib
from pathlib import Path

from aidiag.collectors.collector import Context
from aidiag.collectors.records import RecordFinder
from aidiag.diagnose.job.folder import write_atomically
from aidiag.diagnose.report.model import JobFacts, RankRow, Report
from aidiag.diagnose.report.ranks import record_row
from aidiag.trainer_shim.model import RecordError
from aidiag.trainer_shim.reader import read_record

SUFFIX = ".record"
COPIES_CAP = 256
LOOK_EVERY_SECONDS = 2.0


class RecordKeeper:
    """Holds the records of the context's job open while it runs, and copies them when it is over: by then those of a
    container have gone with it, and can be read by nobody else.
    """

    def __init__(self, context: Context) -> None:
        self._clock = context.clock
        self._finder = RecordFinder(context.record_folders, job=context.job, keeps_gone=True)
        self._look_at = 0.0

    def look(self) -> None:
        """Find what is new, where the last look was some time ago."""
        now = self._clock.monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_EVERY_SECONDS
            self._finder.find()

    def copy(self, folder: Path) -> int:
        """Copy the newest records into `folder` and say how many. What cannot be copied is left out."""
        if folder.is_symlink():
            return 0
        copied: set[Path] = set()
        newest_first = sorted(self._finder.find(), key=lambda found: -found.record.identity.attached_unix)
        for found in newest_first[:COPIES_CAP]:
            target = folder / f"rank-{found.record.identity.rank}-{found.owner.pid}{SUFFIX}"
            content = self._finder.content(found)
            if target in copied or content is None:
                continue  # a container's first process has the same id each time that it is started
            with contextlib.suppress(OSError):
                folder.mkdir(exist_ok=True)
                write_atomically(target, content)
                copied.add(target)
        return len(copied)

    def close(self) -> None:
        """Let go of the records."""
        self._finder.close()


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
