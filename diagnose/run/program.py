"""Finding and starting the command as a shell would."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from aidiag.diagnose.run.streams import Stream

NOT_FOUND, NOT_EXECUTABLE = 127, 126

RESET_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)
"""Python ignores them; the command gets the usual."""


class NotStartableError(Exception):
    """The command cannot be started. `status` is what a shell would end with."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def find(name: str, environ: Mapping[str, str]) -> str:
    """Where a command is. Raises NotStartableError with 127 where it is not found, 126 where it cannot be executed."""
    folders = [""] if "/" in name else environ.get("PATH", os.defpath).split(os.pathsep)
    found = [f"{folder}/{name}" if folder else name for folder in folders] if name else []
    reason = ""
    for path in found:
        try:
            folder = os.path.isdir(path)  # noqa: PTH112 # a shell's rules for strings, not paths
            if not folder and os.access(path, os.X_OK):
                return path
            if os.access(path, os.F_OK) and ("/" in name or not folder):
                reason = os.strerror(errno.EISDIR if folder else errno.EACCES)
        except ValueError:  # a NUL in the name
            break
    if reason:
        raise NotStartableError(NOT_EXECUTABLE, f"{name}: {reason}")
    raise NotStartableError(NOT_FOUND, f"{name}: command not found")


def spawn(
    program: str,
    command: Sequence[str],
    environ: Mapping[str, str],
    streams: Sequence[Stream],
    *,
    plain: Mapping[str, str],
) -> int:
    """Start the command with its output in the streams: its process id. Descriptors that we inherited it inherits too
    (Slurm's PMI sockets, process substitutions). `plain` is the environment to fall back to where `environ` is too
    long. Raises NotStartableError.
    """
    into = [(os.POSIX_SPAWN_DUP2, stream.inlet, fd) for stream in streams for fd in stream.fds]
    try:
        return _spawn(program, command, environ, into)
    except OSError as problem:
        if problem.errno not in (errno.ENOEXEC, errno.E2BIG):
            raise NotStartableError(NOT_EXECUTABLE, f"{command[0]}: {problem.strerror}") from None
        script = problem.errno == errno.ENOEXEC
    try:
        if script:  # without #!: shells then read it themselves
            return _spawn("/bin/sh", ("sh", program, *command[1:]), environ, into)
        return _spawn(program, command, plain, into)
    except OSError as problem:
        raise NotStartableError(NOT_EXECUTABLE, f"{command[0]}: {problem.strerror}") from None


def _spawn(
    program: str, command: Sequence[str], environ: Mapping[str, str], actions: Sequence[tuple[int, int, int]]
) -> int:
    return os.posix_spawn(program, tuple(command), environ, file_actions=actions, setsigdef=RESET_SIGNALS)


def become(program: str, command: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Turn this process into the command, as if there were no aidiag. Raises NotStartableError."""
    for number in RESET_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execve(program, tuple(command), environ)
    except OSError as problem:
        if problem.errno == errno.ENOEXEC:
            os.execve("/bin/sh", ("sh", program, *command[1:]), environ)
        raise NotStartableError(NOT_EXECUTABLE, f"{command[0]}: {problem.strerror}") from None
