"""Running a scheduler's tool: never longer than a deadline, never more output than a limit."""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from aidiag.diagnose.report.escape import one_line

DEADLINE_SECONDS = 30.0
OUTPUT_LIMIT_BYTES = 8 << 20
COMPLAINT_LIMIT_BYTES = 2048


class ToolError(Exception):
    """A tool is not there, failed or did not come to an end: `reason` in its own words where it has any."""

    def __init__(self, reason: str, remedy: str = "", *, missing: bool = False) -> None:
        super().__init__(reason)
        self.remedy = remedy
        self.missing = missing


def run(
    command: Sequence[str],
    file: Path,
    *,
    deadline_seconds: float = DEADLINE_SECONDS,
    limit_bytes: int = OUTPUT_LIMIT_BYTES,
    echo: bool = True,
) -> str:
    """Write what a command prints to `file`, which must not be there yet, behind the command itself as a shell shows it
    (`echo`).

    Gives why that is not all of it, empty where it is. Raises ToolError when the command is not there or fails; then the
    file stays only if something was printed.
    """
    program = shutil.which(command[0])
    if program is None:
        raise ToolError(f"{command[0]} is not installed here", missing=True)
    with file.open("xb") as output, tempfile.TemporaryFile() as complaints:
        header = f"$ {shlex.join(command)}\n".encode() if echo else b""
        output.write(header)
        output.flush()
        process = subprocess.Popen(
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env={**os.environ, "LC_ALL": "C.UTF-8", "SLURM_TIME_FORMAT": "standard"},
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            cut = _copy(process.stdout, output, time.monotonic() + deadline_seconds, limit_bytes)
            if not cut:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(1)
        finally:
            ended = process.poll()
            if ended is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            process.stdout.close()
        empty = output.tell() == len(header)
        said = _last_line(complaints)
    if empty and (cut or ended):
        file.unlink()
    if cut == "late" and empty:
        raise ToolError(f"{command[0]} has not answered in {deadline_seconds:.0f} s", "ask again later")
    if cut:
        return f"the rest was not read: {_CUTS[cut]}"
    if ended:
        raise ToolError(f"{command[0]}: {said.removeprefix(f'{command[0]}: ') or f'ended with status {ended}'}")
    return ""


def _last_line(complaints: IO[bytes]) -> str:
    """What a tool said last: the lines before it tell what it tried."""
    size = complaints.seek(0, os.SEEK_END)
    complaints.seek(max(0, size - COMPLAINT_LIMIT_BYTES))
    lines = complaints.read().decode("utf-8", "backslashreplace").strip().splitlines()
    return one_line(lines[-1].strip()) if lines else ""


_CUTS = {"late": "it took too long", "large": "there is too much of it"}


def _copy(source: IO[bytes], output: IO[bytes], end: float, limit_bytes: int) -> str:
    """Copy to the end; else why not: `late` or `large`."""
    left = limit_bytes
    while True:
        ready, _, _ = select.select([source], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return "late"
        data = os.read(source.fileno(), 64 << 10)
        if not data:
            return ""
        output.write(data[:left])
        left -= len(data)
        if left < 0:
            return "large"
