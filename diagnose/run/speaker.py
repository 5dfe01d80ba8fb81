"""Telling the user on stderr what the sidecar found."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from aidiag.diagnose.job.folder import HostFolder
from aidiag.diagnose.job.locks import lock
from aidiag.diagnose.report.escape import one_line

LINE_LIMIT_BYTES = 1 << 20
TRY_EVERY_SECONDS = 5.0
SETTLE_SECONDS = 2.0
"""How long a finding waits for one that explains it: victims complain before the culprit is known."""
SPOKEN = ("warning", "critical")


class Speaker:
    """Follows `findings.ndjson` and says what is new, root causes only. Of several runs in one host folder one speaks at a
    time: the holder of `speaker.lock`, in which it keeps how far it has read, for the next one.
    """

    def __init__(
        self, folder: HostFolder, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder, self._say, self._clock = folder, say, clock
        self._lock: int | None = None
        self._try_at = 0.0
        self._position = 0
        self._rest = b""
        self._waiting: dict[str, tuple[float, dict[str, Any]]] = {}
        self._explained: set[str] = set()

    def follow(self, *, last: bool = False) -> None:
        """Say what has come since the last call; with `last`, at the end, nothing waits any longer. Raises OSError where
        the folder cannot be read.
        """
        if self._lock is None and not self._take_over():
            return
        for line in self._new_lines():
            with suppress(msgspec.DecodeError, UnicodeDecodeError, AttributeError, TypeError, KeyError, RecursionError):
                self._take(msgspec.json.decode(line))
        now = self._clock()
        for key, (due, entry) in list(self._waiting.items()):
            if last or now >= due:
                del self._waiting[key]
                self._tell(entry)

    def _take(self, entry: dict[str, Any]) -> None:
        """What is raised waits a while; it is told in its last form, or not at all where another finding explains it."""
        event = entry["event"]
        key = str(entry["finding"]["id"]) if event != "note" else ""
        if event == "raised" and not entry["finding"].get("explained_by"):
            self._waiting[key] = (self._clock() + SETTLE_SECONDS, entry)
        elif event == "explained":
            self._waiting.pop(key, None)
            self._explained.add(key)
        elif event == "cleared" and key in self._explained:
            self._explained.remove(key)
        elif event == "changed" and key in self._waiting:
            self._waiting[key] = (self._waiting[key][0], {**entry, "event": "raised"})
        else:
            if key in self._waiting:
                self._tell(self._waiting.pop(key)[1])
            self._tell(entry)

    def _tell(self, entry: dict[str, Any]) -> None:
        for text in _words(entry):
            self._say(one_line(text))

    def _take_over(self) -> bool:
        now = self._clock()
        if now < self._try_at:
            return False
        self._try_at = now + TRY_EVERY_SECONDS
        self._lock = lock(self._folder.speaker_lock)
        if self._lock is None:
            return False
        with suppress(ValueError, OSError):
            self._position = int(os.pread(self._lock, 32, 0) or b"0")
        return True

    def _new_lines(self) -> Iterator[bytes]:
        try:
            fd = os.open(self._folder.findings, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        with open(fd, "rb") as file:
            if os.fstat(fd).st_size < self._position:  # of an earlier job, or begun anew
                self._position, self._rest = 0, b""
            file.seek(self._position)
            new = file.read(LINE_LIMIT_BYTES)
        *lines, self._rest = (self._rest + new).split(b"\n")
        self._position += len(new)
        if new and self._lock is not None:
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, b"%d" % (self._position - len(self._rest)), 0)
        yield from lines


def _words(entry: dict[str, Any]) -> Iterator[str]:
    """The lines to say for an entry of `findings.ndjson`; none where it is of no concern."""
    if entry["event"] == "note":
        yield str(entry["text"])
        return
    finding = entry["finding"]
    if finding["severity"] not in SPOKEN or finding.get("explained_by"):
        return
    if entry["event"] == "cleared":
        yield f"over: {finding['summary']}"
        return
    now = "now " if entry["event"] == "changed" else ""
    yield f"{now}{finding['severity']}: {finding['title']}: {finding['summary']} [{finding['rule']}]"
    if now:
        return
    if finding.get("why"):
        yield f"  why: {finding['why']}"
    for step in (finding.get("remedy") or ())[:1]:
        yield f"  do: {step['do']}" + (f" ({step['command']})" if step.get("command") else "")
