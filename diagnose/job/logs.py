"""The logs that `aidiag run` and NCCL left in a host's folder, and whose each one is."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aidiag.collectors.logs.attribution import Owner
from aidiag.collectors.logs.files import owner_by_name
from aidiag.diagnose.incident import LogFile, shown
from aidiag.diagnose.job.folder import HostFolder
from aidiag.diagnose.job.runs import read_runs

FILES_CAP = 4096

_CAPTURE = re.compile(r"((?:stdout|stderr)-(\d+(?:-\d+)?))(?:\.(\d+))?\.log")
"""A capture: its name without what follows, the key of its run, and the number of a later part (run.segments)."""
_NCCL = re.compile(r"nccl\..+\.log")


def logs_of(host: HostFolder) -> list[LogFile]:
    """The captures and NCCL logs of one host, named as seen from the job folder; links are left out. Empty where the
    folder cannot be listed.
    """
    return sorted(_found(host), key=_order)[:FILES_CAP]


def _order(log: LogFile) -> tuple[str, int]:
    """The parts of a capture one after the other, its head, which has no number, first."""
    capture = _CAPTURE.fullmatch(log.path.name)
    return (capture[1], int(capture[3] or 0)) if capture else (log.path.name, 0)


def _found(host: HostFolder) -> Iterator[LogFile]:
    runs = {run.key: run for run in read_runs(host)}
    whose = next((run.host for run in runs.values()), host.path.name)
    try:
        paths = [path for path in host.path.iterdir() if path.is_file() and not path.is_symlink()]
    except OSError:
        return
    for path in paths:
        name = shown(path.relative_to(host.path.parent))
        if capture := _CAPTURE.fullmatch(path.name):
            run = runs.get(capture[2])
            yield LogFile(path, name, Owner(host=whose, rank=run.rank if run else None))
        elif _NCCL.fullmatch(path.name):
            yield LogFile(path, name, Owner(host=whose, pid=owner_by_name(path).pid))
