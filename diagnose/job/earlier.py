"""Setting aside what an earlier job of the same id left in a host folder.

Ids that are made from the start directory come back with each start there, and so do those of requeued Slurm jobs;
a report must not speak of an earlier job's findings.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from aidiag.diagnose.job.folder import HostFolder, JobFolder
from aidiag.diagnose.job.runs import is_over, read_runs

PREFIX = "earlier-"
KEPT = 2
STAYS = {"sidecar.lock", "speaker.lock", "start.lock"}


def set_aside(job: JobFolder, host: HostFolder, unix: float, *, before: float | None = None) -> Path | None:
    """Move an earlier job's files into `earlier-<unix time>/`; keeps the newest two of these folders.

    With `before`, a Unix time, only what has not been written since. To be called by who holds the sidecar's lock, or
    fills a folder that has no sidecar. Does nothing, and returns None, while a run of this folder is still
    at work or where nothing is left to move. Raises OSError where files cannot be moved.
    """
    if not all(is_over(run, unix) for run in read_runs(host)):
        return None
    left = [path for path in host.path.iterdir() if path.name not in STAYS and not path.name.startswith((PREFIX, "."))]
    if job.report.exists():
        left.append(job.report)
    if before is not None:
        left = [path for path in left if path.lstat().st_mtime < before]
    if not left:
        return None
    target = _fresh(host.path, unix)
    with suppress(FileNotFoundError):
        os.truncate(host.speaker_lock, 0)
    for path in left:
        name = "job-report.json" if path == job.report else path.name
        with suppress(FileNotFoundError):
            path.rename(target / name)
    for old in sorted(host.path.glob(f"{PREFIX}*"))[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return target


def _fresh(host: Path, unix: float) -> Path:
    number = int(unix)
    while True:
        target = host / f"{PREFIX}{number:012d}"
        try:
            target.mkdir()
            return target
        except FileExistsError:
            number += 1
