"""Copies of the shim's records in the job folder, so that a job can be judged after its host's memory is gone."""

from __future__ import annotations

import contextlib
from pathlib import Path

from aidiag.collectors.collector import Context
from aidiag.collectors.records import records_of
from aidiag.diagnose.job.folder import write_atomically
from aidiag.trainer_shim.model import RecordError

COPIES_CAP = 256


def copy_records(context: Context, folder: Path) -> int:
    """Copy the records of the context's job into `folder` and say how many. What cannot be copied is left out."""
    copied = 0
    finder = records_of(context)
    for found in finder.find()[:COPIES_CAP]:
        identity = found.record.identity
        with contextlib.suppress(OSError, RecordError):
            content = finder.content(found)
            folder.mkdir(exist_ok=True)
            write_atomically(folder / f"rank-{identity.rank}-{found.owner.pid}.record", content)
            copied += 1
    if finder is not context.records:
        finder.close()
    return copied
