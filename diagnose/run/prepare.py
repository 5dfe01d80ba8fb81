"""Making the job folder ready before the command starts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from aidiag.diagnose.job.earlier import set_aside
from aidiag.diagnose.job.folder import HostFolder, JobFolder, make, places
from aidiag.diagnose.job.locks import lock
from aidiag.diagnose.job.runs import claim_key
from aidiag.diagnose.run.task import Task

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Desk:
    """A run's place in its job folder. `sidecar_lock` is a descriptor where the lock was free: then this run is to
    start the sidecar.
    """

    job: JobFolder
    host: HostFolder
    key: str
    sidecar_lock: int | None = None


def prepare(task: Task, say: Callable[[str], None]) -> Desk | None:
    """Make the folder where it can be made, and set aside what an earlier job of the same id left in it. None, with
    words to the user, where it can be made nowhere.
    """
    return _first(
        places(task.settings.out, task.environ, start=task.directory),
        lambda out: _take_place(*make(out, task.job, task.host), task),
        say,
    )


def host_folder(
    out: Path | None, environ: Mapping[str, str], job: str, host: str, say: Callable[[str], None]
) -> HostFolder | None:
    """Make a host's folder without a run in it, under the same rules."""
    return _first(places(out, environ), lambda place: make(place, job, host)[1], say)


def again(path: Path, key: str) -> Desk:
    """The desk of an earlier keeper of the same run."""
    return Desk(JobFolder(path.parent), HostFolder(path), key)


def _first(places: Iterable[Path], use: Callable[[Path], T], say: Callable[[str], None]) -> T | None:
    """What `use` makes of the first place that it can use."""
    for place in places:
        try:
            return use(place)
        except OSError as problem:
            say(f"no job folder in {place}: {problem}")
    say("the job runs without diagnosis; --out DIR chooses another place for the job folder")
    return None


def _take_place(job: JobFolder, host: HostFolder, task: Task) -> Desk:
    sidecar_lock = lock(host.sidecar_lock)
    try:
        if sidecar_lock is not None:
            with suppress(OSError):  # then old files lie beside the new ones
                set_aside(job, host, task.started)
        return Desk(job, host, claim_key(host, task.run_pid), sidecar_lock)
    except OSError:
        if sidecar_lock is not None:
            os.close(sidecar_lock)
        raise
