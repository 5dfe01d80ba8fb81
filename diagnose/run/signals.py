"""Signals: which ones are handed on to the command, and when.

A signal that somebody sent to `run` alone (kill, Kubernetes, systemd) must reach the command. One that was sent to
the whole process group or job step (a terminal, timeout(1), Slurm) has reached it already, and a second one may do
harm: torchrun's handler raises, so a second SIGTERM breaks the clean-up that the first began. The keeper, which is in
the same group, tells the two apart: what it got too, the command got too.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

NOT_FORWARDED = {
    signal.SIGKILL, signal.SIGSTOP,  # cannot be caught
    signal.SIGCHLD, signal.SIGWINCH, signal.SIGURG, signal.SIGCONT,  # `run` has its own use for them, or none
    signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,  # job control stops `run` and the command alike
    signal.SIGPIPE, signal.SIGXFSZ,  # of `run`'s own doing
    signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS,
}  # fmt: skip

STOPPING = {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM}

SPREAD_SECONDS = 0.05
"""Slurm signals the processes of a step one after the other."""

ANSWER_SECONDS = 1.0


def forwarded() -> list[int]:
    """The signals to hand on: all that would end a process, but not those that were ignored when we started (nohup,
    background jobs of a script): the command inherits that.
    """
    return [
        number
        for number in sorted(signal.valid_signals())
        if number not in NOT_FORWARDED and signal.getsignal(number) is not signal.SIG_IGN
    ]


def note_signals(numbers: Iterable[int]) -> tuple[int, int]:
    """Turn signals into bytes on a pipe, one byte a signal: its reading and writing end."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in numbers:
        with suppress(OSError, ValueError):
            signal.signal(number, lambda _number, _frame: None)
    return reading, writing


def noted(fd: int) -> bytes:
    """The signals that have come since the last call."""
    with suppress(BlockingIOError):
        return os.read(fd, 4096)
    return b""


@dataclass(slots=True)
class _Waiting:
    number: int
    ask_at: float
    give_up_at: float
    asked: bool = False


class Relay:
    """Decides for each signal that `run` got whether the command needs it from us.

    `ask` sends the question to the keeper and says whether it could; the answer comes by `answered`. Where there is
    none, the signal is handed on by `deliver`.
    """

    def __init__(
        self, ask: Callable[[], bool], deliver: Callable[[int], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask, self._deliver, self._clock = ask, deliver, clock
        self._waiting: list[_Waiting] = []

    def received(self, number: int) -> None:
        """`run` got a signal."""
        now = self._clock()
        self._waiting.append(_Waiting(number, now + SPREAD_SECONDS, now + SPREAD_SECONDS + ANSWER_SECONDS))

    def answered(self, seen: Iterable[int]) -> None:
        """The keeper's answer: the signals that it got lately."""
        known = set(seen)
        for waiting in [waiting for waiting in self._waiting if waiting.asked]:
            self._waiting.remove(waiting)
            if waiting.number not in known:
                self._deliver(waiting.number)

    def tick(self) -> None:
        """Ask and give up where it is time."""
        now = self._clock()
        due = [waiting for waiting in self._waiting if not waiting.asked and waiting.ask_at <= now]
        if due:
            reachable = self._ask()
            for waiting in due:
                waiting.asked = True
                if not reachable:
                    waiting.give_up_at = now
        for waiting in [waiting for waiting in self._waiting if waiting.asked and waiting.give_up_at <= now]:
            self._waiting.remove(waiting)
            self._deliver(waiting.number)

    def wait_seconds(self) -> float | None:
        """How long until `tick` is due, None where nothing waits."""
        times = [waiting.give_up_at if waiting.asked else waiting.ask_at for waiting in self._waiting]
        return max(min(times) - self._clock(), 0.0) if times else None
