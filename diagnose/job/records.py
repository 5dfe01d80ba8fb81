"""Copies of the shim's records in the job folder, so that a job can be judged after its host's memory is gone."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from aidiag.collectors.collector import Context
from aidiag.collectors.records import RecordFinder
from aidiag.diagnose.job.folder import write_atomically
from aidiag.trainer_shim.layout import FILE_BYTES

COPIES_CAP = 256


def copy_records(context: Context, folder: Path) -> int:
    """Copy the records of the context's job into `folder` and say how many. What cannot be copied is left out."""
    copied = 0
    for found in RecordFinder(context.record_folders, job=context.job).find()[:COPIES_CAP]:
        identity = found.record.identity
        with contextlib.suppress(OSError):
            folder.mkdir(exist_ok=True)
            write_atomically(folder / f"rank-{identity.rank}-{found.owner.pid}.record", _content(found.path))
            copied += 1
    return copied


def _content(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as stream:
        return stream.read(FILE_BYTES)
