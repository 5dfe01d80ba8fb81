"""Where the command's output goes: a pseudo-terminal for what the user has on a terminal, a pipe for the rest.

The command stays in the user's session and process group and keeps the user's own standard input and controlling
terminal. Only what it writes to is replaced. So Ctrl-C, Ctrl-Z, passwords, job control and `/dev/tty` are the
terminal's own work as without aidiag, and the terminal's mode is never changed: nothing has to be restored, even
after kill -9. The pseudo-terminal is there for `isatty`, the window size and line buffering; it does not touch the
bytes (OPOST is off), which the real terminal then treats as if the command had written to it. What does not work is a
full-screen program that sets the terminal's mode through its output (curses).
"""

from __future__ import annotations

import fcntl
import os
import termios
from contextlib import suppress
from dataclasses import dataclass

PIPE_BYTES = 1 << 20
STDIN, STDOUT, STDERR = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Stream:
    """One way of output. `fds` are the command's descriptors that lead into it (1, 2 or both), `source` is the end
    that is read, `inlet` the end that the command gets, `display` where the user sees it.
    """

    fds: tuple[int, ...]
    source: int
    inlet: int
    display: int
    terminal: bool

    @property
    def name(self) -> str:
        """The name of its capture: stdout, also where both go the same way, or stderr."""
        return "stdout" if STDOUT in self.fds else "stderr"


def open_streams() -> tuple[Stream, ...]:
    """The ways for standard output and standard error: one where the user has both on the same terminal or file.

    Raises OSError where neither a pseudo-terminal nor a pipe can be made.
    """
    same = _identity(STDOUT) == _identity(STDERR)
    groups = ((STDOUT, STDERR),) if same else ((STDOUT,), (STDERR,))
    return tuple(_open(fds) for fds in groups)


def copy_window_size(stream: Stream) -> None:
    """Give the pseudo-terminal the size of the user's."""
    if stream.terminal:
        with suppress(OSError):
            size = fcntl.ioctl(stream.display, termios.TIOCGWINSZ, b"\0" * 8)
            fcntl.ioctl(stream.source, termios.TIOCSWINSZ, size)


def _identity(fd: int) -> tuple[int, int, int]:
    facts = os.fstat(fd)
    return facts.st_dev, facts.st_ino, facts.st_rdev


def _open(fds: tuple[int, ...]) -> Stream:
    display = fds[0]
    if os.isatty(display):
        with suppress(OSError):  # no free pseudo-terminal, or no /dev/pts: a pipe does the work too
            return _open_terminal(fds, display)
    source, inlet = os.pipe()
    with suppress(OSError):  # the user may have too many big pipes
        fcntl.fcntl(inlet, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return Stream(fds, source, inlet, display, terminal=False)


def _open_terminal(fds: tuple[int, ...], display: int) -> Stream:
    source, inlet = os.openpty()
    with suppress(termios.error):
        settings = termios.tcgetattr(display)
        settings[1] &= ~termios.OPOST
        termios.tcsetattr(inlet, termios.TCSANOW, settings)
    stream = Stream(fds, source, inlet, display, terminal=True)
    copy_window_size(stream)
    return stream
