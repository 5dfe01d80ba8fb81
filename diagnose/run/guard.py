"""Seeing to it that somebody always moves the command's output: a keeper, the next keeper, or this process itself."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from threading import Thread
from typing import Any

from aidiag.collectors.run_files import ProcessMark
from aidiag.diagnose.run import keeper as keepers
from aidiag.diagnose.run.prepare import Desk, again
from aidiag.diagnose.run.pump import move_plainly, waiting_bytes
from aidiag.diagnose.run.streams import Stream
from aidiag.diagnose.run.task import Task

KEEPERS_LIMIT = 5
CALL_EVERY_SECONDS = 5.0
CALLS_MISSED = 3
LEFTOVER_SECONDS = 1.0
MOVERS_SECONDS = 0.1


class Guard:
    """The keeper as `run` has to do with it. The constructor raises OSError where none can be started.

    `added` are the variables for the command, None until the keeper has told them. `drained` says that all that the
    ended command had written is shown, `done` that nothing is left to wait for. `answered` is called with the signals
    that the keeper got lately.
    """

    def __init__(self, task: Task, streams: Iterable[Stream], answered: Callable[[Iterable[int]], None]) -> None:
        self._task, self._answered = task, answered
        self.streams = list(streams)
        self.added: dict[str, str] | None = None
        self.drained = self.done = False
        self._desk: Desk | None = None
        self._child: ProcessMark | None = None
        self._status: int | None = None
        self._ended_at = 0.0
        self._movers: dict[Stream, Thread] = {}
        self._keeper: keepers.Keeper | None = keepers.start(task, self.streams)
        self._keepers_started = 1
        self._call_at = time.monotonic() + CALL_EVERY_SECONDS
        self._calls_missed = 0

    def fileno(self) -> int | None:
        """What to poll for the keeper's messages."""
        return None if self._keeper is None else self._keeper.control.fileno()

    def wait_seconds(self) -> float:
        """How long until `tick` is due."""
        return MOVERS_SECONDS if self._movers else max(self._call_at - time.monotonic(), 0.0)

    def is_keeper(self, pid: int) -> bool:
        """Whether a process is the present keeper."""
        return self._keeper is not None and self._keeper.pid == pid

    def ask(self) -> bool:
        """Ask for the signals that the keeper got; False where nobody can be asked."""
        return self._tell("ask")

    def started(self, child: ProcessMark | None) -> None:
        """The command has started."""
        self._child = child
        if child is not None:
            self._tell("started", mark=asdict(child))

    def ended(self, status: int) -> None:
        """The command has ended."""
        self._status, self._ended_at = status, time.monotonic()
        self._tell("ended", status=status)

    def hear(self) -> bool:
        """Take what the keeper has said; False where it is gone."""
        while self._keeper is not None:
            message = self._keeper.control.receive()
            if message is None:
                return False
            if not message["kind"]:
                break
            self._take(message)
        return True

    def tick(self) -> None:
        """See that the keeper answers: a stopped one would fill the pipes until the command waits."""
        if self._movers:
            self.drained = self.done = self._status is not None and all(map(self._moved, self._movers))
        now = time.monotonic()
        if now < self._call_at or self._keeper is None:
            return
        self._call_at = now + CALL_EVERY_SECONDS
        self._calls_missed += 1
        if self._calls_missed > CALLS_MISSED:
            with suppress(ProcessLookupError):
                os.kill(self._keeper.pid, signal.SIGKILL)
        else:
            self.ask()

    def keeper_died(self) -> None:
        """Let another keeper take over, or, where none will live, move the output in this process."""
        if self._keeper is not None:
            self._keeper.control.close()
        self._keeper, self._calls_missed = None, 0
        if self._status is not None and self.drained:
            self.done = True
            return
        if self._keepers_started < KEEPERS_LIMIT:
            self._keepers_started += 1
            with suppress(OSError):
                self._keeper = keepers.start(self._task, self.streams, self._desk)
        if self._keeper is None:
            self._movers = {stream: move_plainly(stream) for stream in self.streams}
            self.added = self.added or {}
        self.started(self._child)
        if self._status is not None:
            self.ended(self._status)

    def _tell(self, kind: str, **fields: Any) -> bool:
        return self._keeper is not None and self._keeper.control.send(kind, **fields)

    def _take(self, message: dict[str, Any]) -> None:
        kind = message["kind"]
        if kind == "prepared":
            self.added = message["added"]
            if "folder" in message:
                self._desk = again(message["job"], Path(message["folder"]), message["key"])
        elif kind == "signals":
            self._calls_missed = 0
            self._answered(message["seen"])
        elif kind == "broken":
            self._close(message["stream"])
        elif kind == "drained":
            self.drained = True
        elif kind == "done":
            self.done = True

    def _close(self, name: str) -> None:
        """The user's reader has gone: let the command meet that."""
        for stream in [stream for stream in self.streams if stream.name == name]:
            os.close(stream.source)
            self.streams.remove(stream)

    def _moved(self, stream: Stream) -> bool:
        """Whether all that the ended command wrote is shown; what it left behind may still write."""
        return not self._movers[stream].is_alive() or (
            time.monotonic() > self._ended_at + LEFTOVER_SECONDS and waiting_bytes(stream.source) == 0
        )
