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
from dataclasses import asdict
from pathlib import Path
from threading import Thread
from typing import Any

from aidiag.diagnose.job.process import ProcessMark, mark
from aidiag.diagnose.run import keeper as keepers
from aidiag.diagnose.run.environment import additions
from aidiag.diagnose.run.identity import job_id, rank
from aidiag.diagnose.run.prepare import Desk, again
from aidiag.diagnose.run.program import NotStartableError, become, find, spawn
from aidiag.diagnose.run.pump import move_plainly, waiting_bytes
from aidiag.diagnose.run.signals import STOPPING, Relay, forwarded, note_signals, noted
from aidiag.diagnose.run.streams import STDIN, Stream, copy_window_size, open_streams
from aidiag.diagnose.run.task import Settings, Task

PREPARE_SECONDS = 5.0
END_SECONDS = keepers.LATEST_END_SECONDS
KEEPERS_LIMIT = 5
CALL_EVERY_SECONDS = 5.0
CALLS_MISSED = 3
LEFTOVER_SECONDS = 1.0
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
    return Task(
        command=tuple(command),
        job=job_id(environ),
        host=os.uname().nodename,
        directory=Path.cwd(),
        started=time.time(),
        run_pid=os.getpid(),
        environ=environ,
        settings=settings,
        rank=rank(environ),
    )


def _complain(text: str) -> None:
    with suppress(OSError, ValueError):
        print(f"aidiag: {text}", file=sys.stderr, flush=True)


class _Run:
    """One run. The constructor raises OSError where streams or a keeper cannot be made."""

    def __init__(self, task: Task, program: str) -> None:
        self._task, self._program = task, program
        self._streams = list(open_streams())
        self._desk: Desk | None = None
        self._added: dict[str, str] | None = None
        self._child: int | None = None
        self._mark: ProcessMark | None = None
        self._status: int | None = None
        self._ended_at = 0.0
        self._stopped_by: int | None = None
        self._drained = self._done = False
        self._movers: dict[Stream, Thread] = {}
        self._signals, _ = note_signals([*forwarded(), signal.SIGCHLD, signal.SIGWINCH])
        self._keeper: keepers.Keeper | None = keepers.start(task, self._streams)
        self._keepers_started = 1
        self._call_at = time.monotonic() + CALL_EVERY_SECONDS
        self._calls_missed = 0
        self._relay = Relay(self._ask, self._deliver)

    def prepare(self) -> None:
        """Wait for the folder, for a bounded time."""
        self._turn_until(lambda: self._added is not None or self._stopped_by is not None, PREPARE_SECONDS)

    def go(self) -> int:
        """Start the command, wait for its end and for the last report: the exit status. Raises NotStartableError."""
        if self._stopped_by is not None:
            return AFTER_SIGNAL + self._stopped_by
        try:
            self._start()
        except NotStartableError as problem:
            self._status = problem.status
            self._finish()
            raise
        while self._status is None:
            try:
                self._turn(None)
            except Exception as problem:  # noqa: BLE001 # the command's end is all that matters
                self._wait_blindly(problem)
        with suppress(Exception):
            self._finish()
        return self._status

    def _start(self) -> None:
        environ = dict(self._task.environ)
        added = self._added or additions(environ, job=self._task.job)
        command, streams = self._task.command, self._streams
        try:
            self._child = spawn(self._program, command, {**environ, **added}, streams, plain=environ)
        finally:
            for stream in streams:
                os.close(stream.inlet)
        self._mark = mark(self._child)
        self._tell_started()
        nowhere = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nowhere, STDIN)  # a pipe into the command breaks when the command closes it
        os.close(nowhere)

    def _finish(self) -> None:
        """The command is over: show the rest of its output, and wait a while for the report."""
        self._tell_end()
        self._turn_until(lambda: self._drained or self._stopped_by is not None, None)
        self._turn_until(lambda: self._done or self._stopped_by is not None or self._keeper is None, END_SECONDS)

    def _wait_blindly(self, problem: Exception) -> None:
        """Something is wrong with us. All that matters now is the command's end."""
        _complain(f"internal error: {type(problem).__name__}: {problem}; waiting for the command")
        while self._child is not None and self._status is None:
            with suppress(InterruptedError):
                self._ended(os.waitpid(self._child, 0)[1])

    # One turn of the loop

    def _turn_until(self, reached: Callable[[], bool], seconds: float | None) -> None:
        end = None if seconds is None else time.monotonic() + seconds
        while not reached() and (end is None or time.monotonic() < end):
            self._turn(None if end is None else max(end - time.monotonic(), 0.0))

    def _turn(self, seconds: float | None) -> None:
        now = time.monotonic()
        waits = [wait for wait in (seconds, self._relay.wait_seconds(), self._call_at - now) if wait is not None]
        poll = select.poll()
        poll.register(self._signals, select.POLLIN)
        if self._keeper is not None:
            poll.register(self._keeper.control, select.POLLIN)
        elif self._movers:
            waits.append(keepers.TURN_SECONDS)
        poll.poll(max(min(waits), 0.0) * 1000)
        for number in noted(self._signals):
            self._signal(number)
        self._hear()
        self._relay.tick()
        self._call()
        if self._movers and self._status is not None:
            self._drained = self._done = all(self._moved(*mover) for mover in self._movers.items())

    def _moved(self, stream: Stream, mover: Thread) -> bool:
        """Whether all that the ended command wrote is shown; what it left behind may still write."""
        return not mover.is_alive() or (
            time.monotonic() > self._ended_at + LEFTOVER_SECONDS and waiting_bytes(stream.source) == 0
        )

    def _signal(self, number: int) -> None:
        if number == signal.SIGCHLD:
            self._reap()
        elif number == signal.SIGWINCH:
            for stream in self._streams:
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
            elif self._keeper is not None and pid == self._keeper.pid:
                self._keeper_died()

    def _ended(self, status: int) -> None:
        self._ended_at = time.monotonic()
        code = os.waitstatus_to_exitcode(status)
        self._status = code if code >= 0 else AFTER_SIGNAL - code

    # The keeper

    def _hear(self) -> None:
        while self._keeper is not None:
            message = self._keeper.control.receive()
            if message is None:
                self._reap()
                return
            if not message["kind"]:
                return
            self._take(message)

    def _take(self, message: dict[str, Any]) -> None:
        kind = message["kind"]
        if kind == "prepared":
            self._added = message["added"]
            if "folder" in message:
                self._desk = again(Path(message["folder"]), message["key"])
        elif kind == "signals":
            self._calls_missed = 0
            self._relay.answered(message["seen"])
        elif kind == "broken":
            self._close(message["stream"])
        elif kind == "drained":
            self._drained = True
        elif kind == "done":
            self._done = True

    def _close(self, name: str) -> None:
        """The user's reader has gone: let the command meet that."""
        for stream in [stream for stream in self._streams if stream.name == name]:
            os.close(stream.source)
            self._streams.remove(stream)

    def _tell(self, kind: str, **fields: Any) -> bool:
        return self._keeper is not None and self._keeper.control.send(kind, **fields)

    def _tell_started(self) -> None:
        if self._mark is not None:
            self._tell("started", mark=asdict(self._mark))

    def _tell_end(self) -> None:
        self._tell("ended", status=self._status)

    def _call(self) -> None:
        """See that the keeper answers. A stopped one would fill the pipes until the command waits."""
        now = time.monotonic()
        if now < self._call_at or self._keeper is None:
            return
        self._call_at = now + CALL_EVERY_SECONDS
        self._calls_missed += 1
        if self._calls_missed > CALLS_MISSED:
            with suppress(ProcessLookupError):
                os.kill(self._keeper.pid, signal.SIGKILL)
        else:
            self._ask()

    def _keeper_died(self) -> None:
        """Another keeper takes over, or, where none will live, this process moves the output itself."""
        if self._keeper is not None:
            self._keeper.control.close()
        self._keeper = None
        if self._status is not None and self._drained:
            return
        self._calls_missed = 0
        if self._keepers_started < KEEPERS_LIMIT:
            self._keepers_started += 1
            with suppress(OSError):
                self._keeper = keepers.start(self._task, self._streams, self._desk)
        if self._keeper is None:
            self._movers = {stream: move_plainly(stream) for stream in self._streams}
            self._added = self._added or {}
        self._tell_started()
        if self._status is not None:
            self._tell_end()

    # Signals for the command

    def _ask(self) -> bool:
        return self._tell("ask")

    def _deliver(self, number: int) -> None:
        if self._child is not None and self._status is None:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self._child, number)
