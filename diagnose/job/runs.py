"""The small files by which `aidiag run`, its keeper and the sidecar of a job know of each other."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from aidiag.collectors import run_files
from aidiag.collectors.bounded import read_bounded
from aidiag.collectors.run_files import FILES_LIMIT, RunFile, encode_run
from aidiag.diagnose.job.folder import HostFolder, JobFolder, write_atomically
from aidiag.diagnose.job.process import PROC, alive

SEEN_EVERY_SECONDS = 15.0
SILENT_SECONDS = 60.0
"""A run in another process id namespace (a container of the same host) that has not renewed `seen` for so long is over."""


@dataclass(frozen=True, slots=True)
class SidecarFile:
    """`sidecar.json`: the sidecar of a host folder, replaced when it listens and when it has written its last report."""

    pid: int
    host: str
    job: str
    started: float
    port: int | None = None
    url: str | None = None
    state: Literal["running", "finished"] = "running"
    finished: float | None = None


def claim_key(folder: HostFolder, pid: int) -> str:
    """A key for the files of a run that nobody has in this folder: its process id, where that is free. Raises OSError."""
    for number in range(FILES_LIMIT):
        key = f"{pid}-{number}" if number else str(pid)
        try:
            os.close(
                os.open(folder.run(key), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o664)
            )
            return key
        except FileExistsError:
            continue
    raise FileExistsError(f"{folder.path}: too many runs of process {pid}")


def write_run(folder: HostFolder, run: RunFile) -> None:
    """Replace the file of a run. Raises OSError."""
    write_atomically(folder.run(run.key), encode_run(run))


def read_runs(folder: HostFolder) -> list[RunFile]:
    """All runs that a host folder tells of, oldest first. Broken and half-made files are left out."""
    return run_files.read_runs(folder.path)


def is_over(run: RunFile, unix: float, proc: Path = PROC) -> bool:
    """Whether nothing of a run can still be at work at Unix time `unix`: it said that it ended, or its processes are
    gone, or, where they cannot be looked at, it has long not been seen.
    """
    if run.ended is not None:
        return True
    lives = [alive(mark, proc) for mark in (run.run, run.child) if mark is not None]
    if True in lives:
        return False
    return None not in lives or _is_silent(run, unix)


def runs_at_work(job: JobFolder, host: str, unix: float) -> list[RunFile]:
    """The runs of a job on all hosts that are not over at Unix time `unix`; `host` is this one. What runs elsewhere is
    known by what it said last. Raises OSError where the folder cannot be listed.
    """
    found = [run for folder in job.hosts() for run in read_runs(folder)]
    return [run for run in found if not (is_over(run, unix) if run.host == host else _is_silent(run, unix))]


def _is_silent(run: RunFile, unix: float) -> bool:
    return run.ended is not None or unix - max(run.seen, run.started) > SILENT_SECONDS


def read_sidecar(folder: HostFolder) -> SidecarFile | None:
    """What the sidecar says of itself, None where there is no readable file."""
    try:
        return msgspec.json.decode(read_bounded(folder.sidecar), type=SidecarFile)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def write_sidecar(folder: HostFolder, sidecar: SidecarFile) -> None:
    """Replace the sidecar's file. Raises OSError."""
    write_atomically(folder.sidecar, msgspec.json.encode(sidecar) + b"\n")
