"""Making the job folder ready before the command starts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from aidiag import __version__
from aidiag.collectors.run_files import RunFile
from aidiag.diagnose.job.earlier import set_aside
from aidiag.diagnose.job.folder import HostFolder, JobFolder, make, places
from aidiag.diagnose.job.locks import lock
from aidiag.diagnose.job.process import mark
from aidiag.diagnose.job.runs import claim_key, runs_at_work, write_run
from aidiag.diagnose.run.meeting import is_another_job, meeting_of
from aidiag.diagnose.run.task import Task, without_secrets

T = TypeVar("T")

JOBS_LIMIT = 64
"""How many jobs of one made id may be at work at a time."""
TURN_SECONDS = 2.0
"""How long a run waits for another that is taking its place at the same moment."""


@dataclass(frozen=True, slots=True)
class Desk:
    """A run's place in its job folder. `job_id` is that of the task, with a number behind where another job has it.
    `sidecar_lock` is a descriptor where the lock was free: then this run is to start the sidecar.
    """

    job_id: str
    job: JobFolder
    host: HostFolder
    key: str
    sidecar_lock: int | None = None


def prepare(task: Task, say: Callable[[str], None]) -> Desk | None:
    """Make the folder where it can be made, and set aside what an earlier job of the same id left in it. None, with
    words to the user, where it can be made nowhere.
    """
    return _first(
        places(task.settings.out, task.environ, start=task.directory), lambda out: _take_place(out, task), say
    )


def host_folder(
    out: Path | None, environ: Mapping[str, str], job: str, host: str, say: Callable[[str], None]
) -> HostFolder | None:
    """Make a host's folder without a run in it, under the same rules."""
    return _first(places(out, environ), lambda place: make(place, job, host)[1], say)


def again(job: str, path: Path, key: str) -> Desk:
    """The desk of an earlier keeper of the same run."""
    return Desk(job, JobFolder(path.parent), HostFolder(path), key)


def run_file(task: Task, job: str, key: str) -> RunFile:
    """What the folder is told of a run that begins."""
    return RunFile(
        key=key,
        job=job,
        host=task.host,
        command=without_secrets(task.command),
        directory=str(task.directory),
        started=task.started,
        run=mark(task.run_pid),
        rank=task.rank,
        seen=time.time(),
        meeting=meeting_of(task.command, task.environ, task.rank),
        version=__version__,
    )


def _first(places: Iterable[Path], use: Callable[[Path], T], say: Callable[[str], None]) -> T | None:
    """What `use` makes of the first place that it can use."""
    for place in places:
        try:
            return use(place)
        except OSError as problem:
            say(f"no job folder in {place}: {problem}")
    say("the job runs without diagnosis; --out DIR chooses another place for the job folder")
    return None


def _take_place(out: Path, task: Task) -> Desk:
    """The first folder of the job's id in which no other job is at work."""
    for number in range(1, JOBS_LIMIT):
        job = task.job if number == 1 else f"{task.job}-{number}"
        folder, host = make(out, job, task.host)
        with _turn(host):
            present = runs_at_work(folder, task.host, task.started) if task.made_id else []
            if not any(is_another_job(task, run) for run in present):
                return _desk(job, folder, host, task)
    raise OSError(f"{JOBS_LIMIT} jobs named {task.job} are at work; give each its own AIDIAG_JOB_ID")


def _desk(job: str, folder: JobFolder, host: HostFolder, task: Task) -> Desk:
    sidecar_lock = lock(host.sidecar_lock)
    try:
        if sidecar_lock is not None:
            with suppress(OSError):  # then old files lie beside the new ones
                set_aside(folder, host, task.started)
        key = claim_key(host, task.run_pid)
        write_run(host, run_file(task, job, key))
        return Desk(job, folder, host, key, sidecar_lock)
    except OSError:
        if sidecar_lock is not None:
            os.close(sidecar_lock)
        raise


@contextmanager
def _turn(host: HostFolder) -> Iterator[None]:
    """Let no other run of this host take its place until this one has; who waits too long goes on."""
    end = time.monotonic() + TURN_SECONDS
    while (held := lock(host.start_lock)) is None and time.monotonic() < end:
        time.sleep(0.01)
    try:
        yield
    finally:
        if held is not None:
            os.close(held)
