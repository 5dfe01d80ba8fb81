"""The keeper: a small process that moves the command's output and keeps the job folder.

It is forked from `run` and stays in its process group, so that it gets the signals which the whole group gets; it
ignores them all, and tells `run` about them (signals.Relay). Its main thread touches neither the disk nor the user's
terminal, so it always answers.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from aidiag.diagnose.run.capture import Capture
from aidiag.diagnose.run.clerk import CAPTURE_SECONDS, REPORT_SECONDS, Clerk
from aidiag.diagnose.run.control import Control, line
from aidiag.diagnose.run.prepare import Desk
from aidiag.diagnose.run.pump import Display, Pump
from aidiag.diagnose.run.signals import forwarded, note_signals, noted
from aidiag.diagnose.run.streams import STDERR, STDIN, STDOUT, Stream
from aidiag.diagnose.run.task import Task

RECENT_SECONDS = 1.0
CLOSE_SECONDS = 2.0
TURN_SECONDS = 1.0
LATEST_END_SECONDS = CAPTURE_SECONDS + REPORT_SECONDS + 2.0
FIRST_FREE_FD = 3


@dataclass(frozen=True, slots=True)
class Keeper:
    """A keeper as `run` sees it."""

    pid: int
    control: Control


def start(task: Task, streams: Sequence[Stream], desk: Desk | None = None) -> Keeper:
    """Fork a keeper. Raises OSError where there is no process or descriptor left. The caller has no threads.

    `desk` is given where an earlier keeper of the same run has died.
    """
    ours, theirs = line()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            _live(task, streams, theirs, desk, before)
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return Keeper(pid, ours)


def _live(task: Task, streams: Sequence[Stream], control: Control, desk: Desk | None, mask: set[int]) -> NoReturn:
    """The forked process, from birth to exit."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signals, writing = note_signals(forwarded())
        for number in (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        with suppress(OSError):
            Path("/proc/self/comm").write_text("aidiag-keeper")
        streams = _keep_only(streams, {control.fileno(), signals, writing})
        _Rounds(task, streams, control, signals, desk).go()
        status = 0
    except BaseException:  # noqa: BLE001 # a fork must never run on in the caller's frames
        if os.environ.get("AIDIAG_DEBUG"):
            sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def _keep_only(streams: Sequence[Stream], ours: set[int]) -> list[Stream]:
    """Close every descriptor but those that the work needs, so that nobody waits for the end of a pipe that only we
    hold. The streams as they are then: their displays are copies, and 0 to 2 lead nowhere.
    """
    streams = [
        replace(stream, display=fcntl.fcntl(stream.display, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE_FD)) for stream in streams
    ]
    needed = ours | {fd for stream in streams for fd in (stream.source, stream.display)}
    with suppress(OSError):
        for fd in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
            if fd >= FIRST_FREE_FD and fd not in needed:
                with suppress(OSError):
                    os.close(fd)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (STDIN, STDOUT) if os.environ.get("AIDIAG_DEBUG") else (STDIN, STDOUT, STDERR):
        os.dup2(nowhere, fd)
    os.close(nowhere)
    return streams


class _Rounds:
    """The main thread: hears `run`, notes signals, and ends when all is done."""

    def __init__(
        self,
        task: Task,
        streams: Sequence[Stream],
        control: Control,
        signals: int,
        desk: Desk | None,
    ) -> None:
        self._control, self._signals = control, signals
        self._quiet = task.settings.quiet
        self._bell, self._bell_rope = os.pipe()
        self._seen: dict[int, float] = {}
        self._captures = {stream.name: Capture() for stream in streams}
        self._displays = [Display(stream.display) for stream in streams]
        self._voice = self._displays[-1] if streams else None  # the last stream is that of standard error
        self._pumps = [
            Pump(stream, self._captures[stream.name], display, self._broken, self._ring)
            for stream, display in zip(streams, self._displays, strict=True)
        ]
        self._clerk = Clerk(task, self._captures, self._say, control.send, self._ring, desk)
        self._over_at: float | None = None  # when the command had ended or `run` was gone
        self._run_is_gone = False
        self._told_drained = False

    def go(self) -> None:
        """Work to the end."""
        for thread in (*self._pumps, self._clerk):
            thread.start()
        self._control.send("ready")
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._signals, select.POLLIN)
        poll.register(self._bell, select.POLLIN)
        while not self._finished():
            rung = self._bell in dict(poll.poll(TURN_SECONDS * 1000))
            if rung:
                os.read(self._bell, 64)
            self._note_signals()
            if not self._run_is_gone and not self._hear():
                self._run_is_gone = True
                poll.unregister(self._control)
            if self._over_at is not None and not self._told_drained and all(p.drained.is_set() for p in self._pumps):
                self._told_drained = self._control.send("drained")
        for display in self._displays:
            display.close()
        for capture in self._captures.values():
            capture.close(CLOSE_SECONDS)

    def _finished(self) -> bool:
        if self._run_is_gone and self._clerk.ended:
            self._end_pumps()
        if any(pump.failed for pump in self._pumps):
            raise RuntimeError("a pump failed: the next keeper moves the output")
        if not all(pump.ended for pump in self._pumps):
            return False
        if self._clerk.ended:
            return True
        if self._over_at is not None:
            return self._run_is_gone or time.monotonic() > self._over_at + LATEST_END_SECONDS
        return self._run_is_gone and time.monotonic() > self._clerk.turned + LATEST_END_SECONDS

    def _hear(self) -> bool:
        """Do what `run` says; False where it is gone."""
        while True:
            message = self._control.receive()
            kind = "gone" if message is None else message["kind"]
            if kind == "ask":
                self._note_signals()
                recent = time.monotonic() - RECENT_SECONDS
                self._control.send("signals", seen=[number for number, at in self._seen.items() if at >= recent])
            elif kind == "ended":
                self._clerk.tell(message or {})
                self._end_pumps()
            elif kind == "started":
                self._clerk.tell(message or {})
            elif kind == "gone":
                if self._over_at is None:
                    self._clerk.tell({"kind": "lost"})
                return False
            else:
                return True

    def _end_pumps(self) -> None:
        if self._over_at is None:
            self._over_at = time.monotonic()
            for pump in self._pumps:
                pump.command_is_over()

    def _note_signals(self) -> None:
        for number in noted(self._signals):
            self._seen[number] = time.monotonic()

    def _ring(self) -> None:
        """Let the main thread look: a thread has come to an end, or nearly."""
        os.write(self._bell_rope, b"!")

    def _broken(self, stream: Stream) -> None:
        self._control.send("broken", stream=stream.name)

    def _say(self, text: str) -> None:
        if self._voice is not None and not self._quiet:
            self._voice.say(f"aidiag: {text}")
