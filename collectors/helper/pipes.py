"""One helper process as its parent sees it: how it is started, spoken with and ended, never waiting without a limit."""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aidiag.collectors.errors import CollectorError
from aidiag.collectors.helper.process import NOTE, NOTE_LIMIT_BYTES

if TYPE_CHECKING:
    from subprocess import Popen

PROCESS_SCRIPT = Path(__file__).resolve().with_name("process.py")
KILL_SECONDS = 0.25
"""How long a killed process is waited for."""
ANSWER_LIMIT_BYTES = 8 << 20

_abandoned: list[Popen[bytes]] = []


def abandoned_count() -> int:
    """Helper processes of this process that SIGKILL did not end and that still live."""
    _abandoned[:] = [process for process in _abandoned if process.poll() is None]
    return len(_abandoned)


class HelperPipes:
    """A running helper process: JSON lines to its standard input, JSON lines from its standard output.

    Raises CollectorError where it cannot be started.
    """

    def __init__(self, script: Path, environ: Mapping[str, str], *, packages: bool) -> None:
        import subprocess  # not needed by those who never meet a foreign file system

        if not sys.executable:
            raise CollectorError("this Python does not know its own executable, so no helper can be started")
        options = ["-I"] if packages else ["-I", "-S"]
        self._notes = os.memfd_create("aidiag-helper")
        self._errors, child_errors = os.pipe()
        os.set_blocking(self._errors, False)
        os.set_blocking(child_errors, False)  # a chatty library loses text instead of blocking
        try:
            self._process: Popen[bytes] = subprocess.Popen(
                [sys.executable, *options, str(PROCESS_SCRIPT), str(script), str(self._notes)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=child_errors,
                cwd="/",
                env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **library_path(), **environ},
                pass_fds=(self._notes,),
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            os.close(self._errors)
            os.close(self._notes)
            raise CollectorError(f"a helper process cannot be started: {error}") from error
        finally:
            os.close(child_errors)
        assert self._process.stdin and self._process.stdout
        self._input, self._output = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._input, False)
        os.set_blocking(self._output, False)
        self._unread = b""

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def send(self, message: Mapping[str, object]) -> None:
        """Hand over one message. Raises OSError where the process has ended or takes nothing."""
        os.pwrite(self._notes, bytes(NOTE.size), 0)
        line = json.dumps(message).encode() + b"\n"
        if os.write(self._input, line) < len(line):
            raise BlockingIOError("the pipe is full")

    def note(self) -> tuple[str, float] | None:
        """What the helper said that it was about to do, and when by CLOCK_MONOTONIC; None where it has said nothing
        since the last request.
        """
        data = os.pread(self._notes, NOTE.size + NOTE_LIMIT_BYTES, 0)
        if len(data) < NOTE.size:
            return None
        time, length = NOTE.unpack_from(data)
        text = data[NOTE.size : NOTE.size + length].decode(errors="backslashreplace")
        return (text, time) if text else None

    def messages(self) -> list[dict[str, Any]]:
        """The whole messages that have come since the last call. Raises CollectorError where one has no end."""
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._output, 1 << 16):
                self._unread += chunk
                if len(self._unread) > ANSWER_LIMIT_BYTES:
                    self._unread = b""
                    raise CollectorError(f"a helper process gave more than {ANSWER_LIMIT_BYTES >> 20} MiB at once")
        *lines, self._unread = self._unread.split(b"\n")
        found = []
        for line in lines:
            with contextlib.suppress(ValueError):
                message = json.loads(line)
                if isinstance(message, dict):
                    found.append(message)
        return found

    def wait_for_output(self, seconds: float) -> bool:
        """Wait for something to read. False when nothing came, or nothing more will come: see `ended`."""
        poller = select.poll()
        poller.register(self._output, select.POLLIN)
        return any(event & select.POLLIN for _, event in poller.poll(max(1, int(seconds * 1000))))

    def closed(self) -> bool:
        """Whether the process has closed its output, as its end does."""
        poller = select.poll()
        poller.register(self._output, select.POLLIN)
        return any(event & select.POLLHUP and not event & select.POLLIN for _, event in poller.poll(0))

    def ended(self, wait_seconds: float = 0.0) -> bool:
        """Whether the process has ended, waiting a moment for it."""
        end = time.monotonic() + wait_seconds
        while self._process.poll() is None:  # wait(2) without a limit would hang with a process in D state
            if time.monotonic() >= end:
                return False
            time.sleep(0.002)
        return True

    def finish(self) -> bool:
        """Close its input, which ends an idle helper. Whether it has ended."""
        assert self._process.stdin
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        return self.ended(KILL_SECONDS)

    def kill(self) -> bool:
        """SIGKILL. True when the process is gone, False when it is stuck in the kernel and now abandoned."""
        if self._process in _abandoned:
            return self.ended()
        self._process.kill()
        if self.ended(KILL_SECONDS):
            return True
        _abandoned.append(self._process)
        return False

    def release(self) -> str:
        """Close the pipes of a process that has ended. Says how it ended, with its last line on standard error."""
        code = self._process.poll()
        try:
            lines = os.read(self._errors, 1 << 16).decode(errors="backslashreplace").strip().splitlines()
        except OSError:
            lines = []
        os.close(self._errors)
        os.close(self._notes)
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                with contextlib.suppress(OSError):
                    stream.close()
        end = f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"
        return f"{end}, {lines[-1][:200]}" if lines else end


def library_path() -> dict[str, str]:
    """LD_LIBRARY_PATH with the one folder that Python itself is loaded from, where that is not a usual one.

    Pythons of cluster module systems do not start without it. The rest of the variable is not handed on: a folder in
    it could put another library in the place of the driver's.
    """
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    try:
        maps = Path("/proc/self/maps").read_text(errors="replace") if folders != [""] else ""
    except OSError:
        return {}
    for line in maps.splitlines():
        folder, _, name = line[line.find("/") :].rpartition("/")
        if name.startswith("libpython") and folder in folders:
            return {"LD_LIBRARY_PATH": folder}
    return {}
