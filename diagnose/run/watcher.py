"""Seeing to it that one sidecar, and only one, watches a job on this host.

How it is started: `aidiag sidecar --job JOB --host-folder FOLDER --lock-fd FD [--port N] [--lang L]`, in a session of
its own, with the folder's `sidecar.lock` already held through the inherited descriptor FD, which it must keep open
for as long as it works. What it prints goes to `sidecar.log`. It says in `sidecar.json` where it listens, learns from
the `run-*.json` files (job.runs) which commands run, writes its last report when `is_over` holds for all of them, sets
`state` there to `finished`, and ends.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import aidiag
from aidiag.diagnose.job.folder import HostFolder, open_to_append
from aidiag.diagnose.job.locks import lock
from aidiag.diagnose.job.runs import read_sidecar
from aidiag.diagnose.run.task import Task

STARTS_LIMIT = 3
LOOK_EVERY_SECONDS = 5.0
DEAF = ("/bin/sh", "-c", "trap '' USR1 USR2; exec \"$@\"", "sh")
"""Slurm sends a signal that asks a job for a checkpoint to all processes of a step, and so to the sidecar."""

PACKAGE_PARENT = Path(aidiag.__file__).resolve().parent.parent


class Watcher:
    """Starts the sidecar where none is, and again (a few times) where it died."""

    def __init__(
        self, folder: HostFolder, task: Task, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder, self._task, self._say, self._clock = folder, task, say, clock
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0
        self._look_at = 0.0

    def start(self, lock_fd: int) -> None:
        """Start the sidecar; `lock_fd` holds the lock of the folder and is handed to it."""
        self._starts += 1
        try:
            with open(self._log(), "ab") as log:
                self._process = subprocess.Popen(
                    self._command(lock_fd),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=_environment(self._task.environ),
                    cwd="/",
                    start_new_session=True,
                    pass_fds=(lock_fd,),
                )
        except OSError as problem:
            self._say(f"the sidecar cannot be started ({problem}); the job runs without diagnosis")
        finally:
            os.close(lock_fd)

    def tick(self) -> None:
        """Look after the sidecar."""
        now = self._clock()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_EVERY_SECONDS
        if self._process is not None:
            if self._process.poll() is None:
                return
            status, self._process = self._process.returncode, None
            then = "starting another" if self._starts < STARTS_LIMIT else "the job runs on without diagnosis"
            self._say(f"the sidecar ended (status {status}, see {self._folder.sidecar_log}); {then}")
        if self._starts < STARTS_LIMIT and (free := lock(self._folder.sidecar_lock)) is not None:
            self.start(free)

    def finished(self) -> bool:
        """Whether the sidecar has written its last report, or there is none any more."""
        if self._process is not None and self._process.poll() is not None:
            return True
        sidecar = read_sidecar(self._folder)
        if sidecar is not None and sidecar.state == "finished":
            return True
        free = lock(self._folder.sidecar_lock)
        if free is None:
            return False
        os.close(free)
        return True

    def _log(self) -> int:
        """Where the sidecar prints; a log that cannot be written must not keep it from its work."""
        try:
            return open_to_append(self._folder.sidecar_log)
        except OSError as problem:
            self._say(f"what the sidecar prints is lost ({problem})")
            return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)

    def _command(self, lock_fd: int) -> list[str]:
        task = self._task
        command = [*DEAF, *task.settings.sidecar, "--job", task.job, "--host-folder", str(self._folder.path)]
        command += ["--lock-fd", str(lock_fd)]
        if task.settings.port is not None:
            command += ["--port", str(task.settings.port)]
        if task.settings.lang:
            command += ["--lang", task.settings.lang]
        return command


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The user's environment, in which this aidiag is found first, whatever lies in the start directory."""
    path = os.pathsep.join(filter(None, [str(PACKAGE_PARENT), environ.get("PYTHONPATH", "")]))
    return {**environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
