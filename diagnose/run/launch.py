"""`run` itself: start the command, stand by it, and end as it ended.

It touches no file of the job and nothing that may hang. Whatever fails before the command has started ends in
starting it without a watch.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from aidiag.diagnose.job.process import mark
from aidiag.diagnose.run.environment import additions
from aidiag.diagnose.run.guard import Guard
from aidiag.diagnose.run.keeper import LATEST_END_SECONDS
from aidiag.diagnose.run.program import NotStartableError, become, find, spawn
from aidiag.diagnose.run.signals import STOPPING, Relay, forwarded, note_signals, noted
from aidiag.diagnose.run.streams import STDIN, copy_window_size, open_streams
from aidiag.diagnose.run.task import Settings, Task
from aidiag.trainer_shim import launchers
from aidiag.trainer_shim.identity import is_made, job_id

PREPARE_SECONDS = 5.0
END_SECONDS = LATEST_END_SECONDS
AFTER_SIGNAL = 128


def launch(command: Sequence[str], settings: Settings) -> int:
    """Run a command under watch: its exit status, 128+N where signal N ended it."""
    environ = dict(os.environ)
    try:
        program = find(command[0], environ)
        if environ.get("AIDIAG_DISABLE") == "1":
            become(program, command, environ)
        try:
            run = _Run(_task(command, settings, environ), program)
            run.prepare()
        except Exception as problem:
            if environ.get("AIDIAG_DEBUG") == "1":
                raise
            _complain(f"the command runs without a watch: {type(problem).__name__}: {problem}")
            become(program, command, environ)
        return run.go()
    except NotStartableError as problem:
        _complain(str(problem))
        return problem.status


def _task(command: Sequence[str], settings: Settings, environ: Mapping[str, str]) -> Task:
    place, directory = launchers.place(environ), Path.cwd()
    return Task(
        command=tuple(command),
        job=job_id(environ, str(directory)),
        host=os.uname().nodename,
        directory=directory,
        started=time.time(),
        run_pid=os.getpid(),
        environ=environ,
        settings=settings,
        rank=None if place.launcher == "none" else place.rank,
        made_id=is_made(environ),
    )


def _complain(text: str) -> None:
    with suppress(OSError, ValueError):
        print(f"aidiag: {text}", file=sys.stderr, flush=True)


class _Run:
    """One run. The constructor raises OSError where streams or a keeper cannot be made."""

    def __init__(self, task: Task, program: str) -> None:
        self._task, self._program = task, program
        self._child: int | None = None
        self._status: int | None = None
        self._stopped_by: int | None = None
        self._signals, _ = note_signals([*forwarded(), signal.SIGCHLD, signal.SIGWINCH])
        self._relay = Relay(lambda: self._guard.ask(), self._deliver)
        self._guard = Guard(task, open_streams(), self._relay.answered)

    def prepare(self) -> None:
        """Wait for the folder, for a bounded time."""
        self._turn_until(lambda: self._guard.added is not None or self._stopped_by is not None, PREPARE_SECONDS)

    def go(self) -> int:
        """Start the command, wait for its end and for the last report: the exit status. Raises NotStartableError."""
        if self._stopped_by is not None:
            return AFTER_SIGNAL + self._stopped_by
        try:
            self._start()
        except NotStartableError as problem:
            self._finish(problem.status)
            raise
        while self._status is None:
            try:
                self._turn(None)
            except Exception as problem:  # noqa: BLE001 # the command's end is all that matters
                self._wait_blindly(problem)
        with suppress(Exception):
            self._finish(self._status)
        return self._status

    def _start(self) -> None:
        environ = dict(self._task.environ)
        added = self._guard.added or additions(environ, job=self._task.job)
        streams = self._guard.streams
        try:
            self._child = spawn(self._program, self._task.command, {**environ, **added}, streams, plain=environ)
        finally:
            for stream in streams:
                os.close(stream.inlet)
        self._guard.started(mark(self._child))
        nowhere = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nowhere, STDIN)  # a pipe into the command breaks when the command closes it
        os.close(nowhere)

    def _finish(self, status: int) -> None:
        """The command is over: show the rest of its output, and wait a while for the report."""
        self._guard.ended(status)
        self._turn_until(lambda: self._guard.drained or self._stopped_by is not None, None)
        self._turn_until(lambda: self._guard.done or self._stopped_by is not None, END_SECONDS)

    def _wait_blindly(self, problem: Exception) -> None:
        """Something is wrong with us. All that matters now is the command's end."""
        _complain(f"internal error: {type(problem).__name__}: {problem}; waiting for the command")
        while self._child is not None and self._status is None:
            with suppress(InterruptedError):
                self._ended(os.waitpid(self._child, 0)[1])

    def _turn_until(self, reached: Callable[[], bool], seconds: float | None) -> None:
        end = None if seconds is None else time.monotonic() + seconds
        while not reached() and (end is None or time.monotonic() < end):
            self._turn(None if end is None else max(end - time.monotonic(), 0.0))

    def _turn(self, seconds: float | None) -> None:
        """Wait for a signal, a message or the next thing to do, and do it."""
        waits = (seconds, self._relay.wait_seconds(), self._guard.wait_seconds())
        poll = select.poll()
        poll.register(self._signals, select.POLLIN)
        if (messages := self._guard.fileno()) is not None:
            poll.register(messages, select.POLLIN)
        poll.poll(min(wait for wait in waits if wait is not None) * 1000)
        for number in noted(self._signals):
            self._signal(number)
        if not self._guard.hear():
            self._reap()
        self._relay.tick()
        self._guard.tick()

    def _signal(self, number: int) -> None:
        if number == signal.SIGCHLD:
            self._reap()
        elif number == signal.SIGWINCH:
            for stream in self._guard.streams:
                copy_window_size(stream)
            self._deliver(number)  # it may have asked for the size before the copy
        elif self._child is not None and self._status is None:
            self._relay.received(number)
        elif number in STOPPING:
            self._stopped_by = number

    def _reap(self) -> None:
        """Take note of ended children. Others than ours come where `run` is the first process of a container."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._child:
                self._ended(status)
            elif self._guard.is_keeper(pid):
                self._guard.keeper_died()

    def _ended(self, status: int) -> None:
        code = os.waitstatus_to_exitcode(status)
        self._status = code if code >= 0 else AFTER_SIGNAL - code

    def _deliver(self, number: int) -> None:
        if self._child is not None and self._status is None:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self._child, number)
