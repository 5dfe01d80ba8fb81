"""Helper processes for calls that may never return: NVML, verbs, statfs on foreign file systems, name look-ups.

A call stuck in the kernel cannot be cancelled, a thread that makes it blocks the exit of the interpreter, and a process
in D state outlives SIGKILL (FUSE, NFS and GPU drivers all do this). So such calls are made in a long-lived helper
process with a deadline. A helper that does not answer is asked nothing more while its call is pending; after a while it
is killed, and when even that does not end it, it is abandoned: never waited for, and no second one is started in its
place for as long as it lives.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aidiag.collectors import errors
from aidiag.collectors.errors import CollectorError, HungError
from aidiag.collectors.helper.pipes import KILL_SECONDS, HelperPipes, abandoned_count

__all__ = ["Helper", "abandoned_count"]

START_SECONDS = 10.0
"""How long Python itself may take to start: on a starved host much longer than any call."""
PATIENCE_SECONDS = 30.0
"""How long a pending call is left alone before its helper is killed."""
NOTES_LIMIT = 15
"""Signs of life may stretch a call to this many deadlines."""
DEATHS_LIMIT, DEATHS_WINDOW_SECONDS = 3, 600.0
"""A helper that died this often within this time is not started again until the time is over."""


@dataclass(slots=True)
class _Call:
    """A call under way: its verb, how messages write it, and what the helper last said it was doing, since when."""

    number: int
    verb: str
    text: str
    since: float
    doing: str = ""


class Helper:
    """One long-lived helper process that serves the verbs of a script, started at its first use.

    `script` defines `VERBS`, a dict of verb name to function of JSON values (see `process.py`). `name` is how
    messages call the helper. `deadline_seconds` is how long a call may go without a sign of life. The process gets a
    clean environment and `environ`; with `packages=False` it cannot import installed packages and starts faster.
    May be used by several threads. `timeouts` and `starts` count since the beginning.
    """

    def __init__(
        self,
        script: Path,
        *,
        name: str,
        deadline_seconds: float = 2.0,
        environ: Mapping[str, str] | None = None,
        packages: bool = True,
        patience_seconds: float = PATIENCE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.timeouts = 0
        self.starts = 0
        self._script, self._environ, self._packages = script.resolve(), dict(environ or {}), packages
        self._deadline, self._patience, self._clock = deadline_seconds, patience_seconds, clock
        self._lock = threading.Lock()
        self._pipes: HelperPipes | None = None
        self._call: _Call | None = None
        self._numbers = 0
        self._deaths: deque[float] = deque(maxlen=DEATHS_LIMIT)

    @property
    def pid(self) -> int | None:
        """The id of the helper process, None while there is none."""
        return self._pipes.pid if self._pipes else None

    def ask(self, verb: str, *arguments: object, deadline_seconds: float | None = None) -> Any:
        """The answer to a verb.

        Raises HungError where it does not come in time or an earlier call is still pending, and CollectorError (or
        the class of it that the helper names) where the call failed or the helper died.
        """
        deadline = self._deadline if deadline_seconds is None else deadline_seconds
        if not self._lock.acquire(timeout=deadline):
            raise self._hung()
        try:
            self._settle()
            if self._call:
                raise self._hung()
            pipes = self._pipes or self._start()
            self._numbers += 1
            brief = ", ".join(map(str, arguments))
            text = f"{verb}({brief if len(brief) <= 120 else brief[:119] + '…'})"
            self._call = _Call(self._numbers, verb, text, self._clock())
            try:
                pipes.send({"id": self._numbers, "verb": verb, "arguments": arguments})
            except OSError:
                raise self._died(pipes) from None
            answer = self._answer(pipes, deadline)
        finally:
            self._lock.release()
        if "error" in answer:
            raise _error(answer["error"])
        return answer.get("value")

    def pending(self) -> tuple[str, float] | None:
        """What has not returned (what the helper said it was doing, else the verb), and for how many seconds."""
        if self._lock.acquire(blocking=False):
            try:
                self._settle()
            finally:
                self._lock.release()
        call = self._call
        return (call.doing or call.verb, self._clock() - call.since) if call else None

    def kill(self) -> bool:
        """Kill the process now. True when it is gone: the next ask starts another. False when it is stuck in the
        kernel: it is abandoned, and asks go on to raise HungError until it ends.
        """
        with self._lock:
            return self._kill()

    def close(self) -> None:
        """End the process, waiting no longer than a moment for it."""
        if not self._lock.acquire(timeout=KILL_SECONDS):
            return  # another thread is in a call; the helper ends with this process, when its input closes
        try:
            if self._pipes and not self._call:
                self._pipes.finish()
            self._kill()
        finally:
            self._lock.release()

    # -- with the lock held -----------------------------------------------------------------------------------------

    def _start(self) -> HelperPipes:
        now = self._clock()
        if len(self._deaths) == DEATHS_LIMIT and now - self._deaths[0] < DEATHS_WINDOW_SECONDS:
            wait = DEATHS_WINDOW_SECONDS - (now - self._deaths[0])
            raise CollectorError(
                f"the {self.name} helper died {DEATHS_LIMIT} times; it is not started again for {wait:.0f} s"
            )
        pipes = self._pipes = HelperPipes(self._script, self._environ, packages=self._packages)
        self.starts += 1
        self._call = _Call(0, "start", f"the start of the {self.name} helper", now)
        self._answer(pipes, START_SECONDS)
        return pipes

    def _answer(self, pipes: HelperPipes, deadline: float) -> dict[str, Any]:
        """Wait for the answer to the call under way."""
        last_word = self._clock() + deadline * NOTES_LIMIT
        while self._call:
            answer = self._take(pipes)
            if answer is not None:
                return answer
            left = min(self._call.since + deadline, last_word) - self._clock()
            if left <= 0 and not self._heard(pipes):
                self.timeouts += 1
                raise self._hung()
            if left > 0 and not pipes.wait_for_output(left) and pipes.closed():
                raise self._died(pipes)
        raise AssertionError("there is a call under way")

    def _take(self, pipes: HelperPipes) -> dict[str, Any] | None:
        """The answer to the call under way, if it has come."""
        call = self._call
        try:
            messages = pipes.messages() if call else []
        except CollectorError:
            self._kill()
            raise
        for message in messages:
            if call and message.get("id", 0) == call.number:
                self._call = None
                return message
        return None

    def _heard(self, pipes: HelperPipes) -> bool:
        """Whether the helper has gone on to something else since it was last looked at."""
        note, call = pipes.note(), self._call
        if note is None or call is None or note[1] <= call.since:
            return False
        call.doing, call.since = note
        return True

    def _settle(self) -> None:
        """See whether a pending call has come back, or the process has ended, or patience has."""
        if self._pipes is None or self._take(self._pipes) is not None:
            return
        if self._pipes.ended():
            self._forget(self._pipes, died=not self._call or self._clock() - self._call.since <= self._patience)
        elif self._call and not self._heard(self._pipes) and self._clock() - self._call.since > self._patience:
            self._kill()

    def _kill(self) -> bool:
        if self._pipes is None:
            return True
        if not self._pipes.kill():
            self._call = self._call or _Call(0, "end", f"the end of the {self.name} helper", self._clock())
            return False
        self._forget(self._pipes, died=False)
        return True

    def _forget(self, pipes: HelperPipes, *, died: bool) -> str:
        self._pipes = self._call = None
        if died:
            self._deaths.append(self._clock())
        return pipes.release()

    def _died(self, pipes: HelperPipes) -> CollectorError:
        """The helper has gone in the middle of a call."""
        text = self._call.text if self._call else "a call"
        if not pipes.ended(KILL_SECONDS) and not pipes.kill():
            return self._hung()
        return CollectorError(f"the {self.name} helper died in {text}: {self._forget(pipes, died=True)}")

    def _hung(self) -> HungError:
        call = self._call
        if call is None:
            return HungError(f"the {self.name} helper is busy")
        seconds = self._clock() - call.since
        text = f"{call.doing or call.text} has not returned for {seconds:.{0 if seconds >= 10 else 1}f} s"
        return HungError(text, seconds=seconds)


def _error(answer: Mapping[str, Any]) -> CollectorError:
    """The error that an answer names."""
    kind = getattr(errors, str(answer.get("type")), CollectorError)
    if not (isinstance(kind, type) and issubclass(kind, CollectorError)):
        kind = CollectorError
    return kind(str(answer.get("reason", "")), str(answer.get("remedy", "")))
