from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.diagnose.run.conftest import Aidiag


@dataclass
class Terminal:
    """A terminal of 33 lines and 101 columns in which a command is the foreground job of a session."""

    master: int
    pid: int
    shown: bytes = b""
    status: int | None = None

    def wait_for(self, text: bytes) -> None:
        """Read until the terminal shows `text`."""
        end = time.monotonic() + 60
        while text not in self.shown:
            assert time.monotonic() < end, self.shown
            self.read(0.1)

    def read(self, seconds: float) -> bool:
        """Take what is shown; False when the terminal is closed."""
        if not select.select([self.master], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.shown += data
        return bool(data)

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self.master, keys)

    def to_the_end(self) -> bytes:
        """Read until the terminal's last user has gone: all that was shown."""
        while self.read(60):
            pass
        _, status = os.waitpid(self.pid, 0)
        self.status = os.waitstatus_to_exitcode(status)
        return self.shown

    def resize(self, rows: int, columns: int) -> None:
        """Change the window's size."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))


@pytest.fixture
def terminal(aidiag: Aidiag) -> Iterator[Callable[..., Terminal]]:
    """Starts a command line in a terminal."""
    opened: list[Terminal] = []

    def start(line: list[str], **environ: str) -> Terminal:
        pid, master = pty.fork()
        if pid == 0:
            os.chdir(aidiag.folder)
            os.execve(line[0], line, {**aidiag.environ, **environ})
        opened.append(Terminal(master, pid))
        opened[-1].resize(33, 101)
        return opened[-1]

    yield start
    for one in opened:
        with suppress(ProcessLookupError):
            os.kill(one.pid, signal.SIGKILL)
        os.close(one.master)
        if one.status is None:
            os.waitpid(one.pid, 0)


LOOKS = """
import os, sys, termios
print([os.isatty(fd) for fd in (0, 1, 2)], os.get_terminal_size(), open('/dev/tty').isatty())
sys.stdout.write("tab\\t\\x1b[1mbold\\x1b[0m\\rback\\n")
sys.stderr.write("no end of line")
"""


def test_a_terminal_looks_as_without_run(aidiag: Aidiag, terminal: Callable[..., Terminal]) -> None:
    """The command sees a terminal of the same size, and the user sees the same bytes as from the bare command."""
    ready = "import time; time.sleep(0.3)\n"  # the size is set after the start
    bare = terminal(list(aidiag.python(ready + LOOKS))).to_the_end()
    watched = terminal(aidiag.line(*aidiag.python(ready + LOOKS), options=["--quiet"])).to_the_end()

    assert b"[True, True, True] os.terminal_size(columns=101, lines=33) True" in bare
    assert bare == watched


def test_the_capture_of_a_terminal_has_the_commands_own_bytes(
    aidiag: Aidiag, terminal: Callable[..., Terminal]
) -> None:
    """What is captured has no carriage returns that the command did not write."""
    terminal(aidiag.line("printf", r"one\ntwo\n", options=["--quiet"])).to_the_end()
    (run,) = aidiag.runs()

    assert b"one\ntwo\n" == aidiag.host.capture("stdout", run.key).read_bytes()


def test_only_the_redirected_stream_is_no_terminal(aidiag: Aidiag, terminal: Callable[..., Terminal]) -> None:
    """With stdout in a file and stderr on the terminal (progress bars), each is what it is without `run`."""
    code = "import os, sys; print([os.isatty(fd) for fd in (0, 1, 2)]); print('on the terminal', file=sys.stderr)"
    line = aidiag.line(*aidiag.python(code), options=["--quiet"])
    shown = terminal(["/bin/sh", "-c", '"$@" >log', "sh", *line]).to_the_end()

    assert b"on the terminal\r\n" == shown
    assert "[True, False, True]\n" == (aidiag.folder / "log").read_text()


def test_a_new_window_size_reaches_the_command(aidiag: Aidiag, terminal: Callable[..., Terminal]) -> None:
    """After a change of the window the command is told, and finds the new size."""
    code = """
import os, signal, sys, time
signal.signal(signal.SIGWINCH, lambda *_: print("now", tuple(os.get_terminal_size()), flush=True))
print("ready", flush=True)
while True: time.sleep(0.05)
"""
    window = terminal(aidiag.line(*aidiag.python(code)))
    window.wait_for(b"ready")
    window.resize(20, 60)
    window.wait_for(b"now (60, 20)")


def test_keys_reach_the_command(aidiag: Aidiag, terminal: Callable[..., Terminal]) -> None:
    """The terminal edits and echoes lines, and the command reads them, to Ctrl-D."""
    window = terminal(aidiag.line(*aidiag.python("import sys; print(repr(sys.stdin.read()))"), options=["--quiet"]))
    window.type(b"helxlo\x7f\x7f\x7flo\n\x04")

    assert b"'hello\\n'" in window.to_the_end()


COUNTS = """
import signal, sys, time
got = []
signal.signal(signal.SIGINT, lambda *_: got.append(1))
print("ready", flush=True)
while not got: time.sleep(0.01)
time.sleep(0.5)
print("interrupts:", len(got), flush=True)
sys.exit(17)
"""


def test_ctrl_c_reaches_the_command_once(aidiag: Aidiag, terminal: Callable[..., Terminal]) -> None:
    """Ctrl-C is one SIGINT for the command; `run` stays until the command ends, and leaves with its status."""
    window = terminal(aidiag.line(*aidiag.python(COUNTS)))
    window.wait_for(b"ready")
    window.type(b"\x03")
    shown = window.to_the_end()

    assert b"interrupts: 1" in shown
    assert 17 == window.status
    assert 17 == aidiag.runs()[0].exit_status


def test_ctrl_c_ends_a_plain_command(aidiag: Aidiag, terminal: Callable[..., Terminal]) -> None:
    """A command without a handler ends by Ctrl-C; the folder is left with its report."""
    window = terminal(aidiag.line("sh", "-c", "echo ready; sleep 60"))
    window.wait_for(b"ready")
    window.wait_for(b"watching job")
    window.type(b"\x03")
    window.to_the_end()

    assert 130 == window.status
    assert (aidiag.host.path.parent / "report.json").exists()


def test_ctrl_z_stops_and_continues_both(
    aidiag: Aidiag, terminal: Callable[..., Terminal], wait_for: Callable[..., Any]
) -> None:
    """Ctrl-Z stops the command and `run`, so that the user's shell gets the terminal; SIGCONT goes on with both."""
    code = "import os, time\nprint('pid', os.getpid(), 'ready', flush=True)\nwhile not os.path.exists('go'): time.sleep(.01)"
    shell = "import os, signal, subprocess, sys\n"
    shell += "run = subprocess.Popen(sys.argv[1:], preexec_fn=os.setpgrp)\n"
    shell += "signal.signal(signal.SIGTTOU, signal.SIG_IGN); os.tcsetpgrp(0, run.pid)\n"
    shell += "_, status = os.waitpid(run.pid, os.WUNTRACED); os.tcsetpgrp(0, os.getpgrp())\n"
    shell += "print('stopped', os.WIFSTOPPED(status), flush=True); input()\n"
    shell += "os.tcsetpgrp(0, run.pid); os.killpg(run.pid, signal.SIGCONT); print('over', run.wait())"
    window = terminal([*aidiag.python(shell), *aidiag.line(*aidiag.python(code))])
    window.wait_for(b"ready")
    child = int(window.shown.split(b"pid ")[1].split()[0])
    window.type(b"\x1a")
    window.wait_for(b"stopped True")
    wait_for(lambda: state(child) == b"T", "the command stopped")
    window.type(b"\n")
    (aidiag.folder / "go").touch()
    window.wait_for(b"over 0")


def state(pid: int) -> bytes:
    """The state letter of a process."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rsplit(b")", 1)[1].split()[0]


def test_the_terminals_mode_is_never_touched(aidiag: Aidiag, terminal: Callable[..., Terminal]) -> None:
    """While a command runs, and after `run` was killed, the terminal is in the mode that the user had."""
    window = terminal(aidiag.line("sh", "-c", "echo ready; sleep 60"))
    before = termios.tcgetattr(window.master)
    window.wait_for(b"ready")
    during = termios.tcgetattr(window.master)
    os.kill(window.pid, signal.SIGKILL)
    os.waitpid(window.pid, 0)
    window.status = -9

    assert before == during == termios.tcgetattr(window.master)


def test_a_closed_terminal_does_not_stop_a_command_that_ignores_it(
    aidiag: Aidiag, terminal: Callable[..., Terminal], wait_for: Callable[..., Any]
) -> None:
    """A command that survives the hang-up (nohup) writes on without errors when its terminal has gone."""
    code = """
import os, signal, time
signal.signal(signal.SIGHUP, signal.SIG_IGN)
print("ready", flush=True)
while not os.path.exists("go"): time.sleep(0.01)
for number in range(50_000): print("line", number, flush=True)
open("done", "w").write("trained")
"""
    window = terminal(aidiag.line(*aidiag.python(code)))
    window.wait_for(b"ready")
    os.dup2(os.open(os.devnull, os.O_RDWR), window.master)  # the terminal's window is closed
    (aidiag.folder / "go").touch()

    wait_for(lambda: (aidiag.folder / "done").exists() and (aidiag.folder / "done").read_text() == "trained", "done")


def test_script_records_a_run(aidiag: Aidiag) -> None:
    """Within script(1) all is as on any terminal."""
    line = " ".join(aidiag.line("tty-test")).replace(aidiag.line()[5], f"'{aidiag.line()[5]}'")
    line = line.replace("tty-test", "sh -c 'test -t 1 && test -t 2 && echo both; exit 3'")
    ended = subprocess.run(
        ["script", "-qec", line, "/dev/null"],
        env=aidiag.environ,
        cwd=aidiag.folder,
        capture_output=True,
        timeout=60,
        check=False,
    )

    assert b"both" in ended.stdout
    assert 3 == ended.returncode
