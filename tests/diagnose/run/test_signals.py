from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from aidiag.diagnose.run.signals import ANSWER_SECONDS, SPREAD_SECONDS, Relay

if TYPE_CHECKING:
    from tests.diagnose.run.conftest import Aidiag

COUNTS = """
import os, signal, sys, time
got = []
for name in ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2"):
    signal.signal(getattr(signal, "SIG" + name), lambda number, _: got.append(number))
print("ready", os.getpid(), flush=True)
while not got: time.sleep(0.01)
time.sleep(0.5)
print(*got, flush=True)
sys.exit(21)
"""
NAMES = ["HUP", "INT", "QUIT", "TERM", "USR1", "USR2"]


def started(aidiag: Aidiag, code: str = COUNTS, **more: Any) -> subprocess.Popen[bytes]:
    """A run whose command is ready."""
    run = aidiag.start(*aidiag.python(code), stdout=subprocess.PIPE, **more)
    assert run.stdout is not None
    assert run.stdout.readline().startswith(b"ready")
    return run


@pytest.mark.parametrize("name", NAMES)
def test_a_signal_to_run_alone_reaches_the_command(aidiag: Aidiag, name: str) -> None:
    """`kill` of `run` is a kill of the command: once, and the status is what the command makes of it."""
    run = started(aidiag)
    run.send_signal(getattr(signal, f"SIG{name}"))
    shown, _ = run.communicate(timeout=60)

    assert [getattr(signal, f"SIG{name}")] == [int(number) for number in shown.split()]
    assert 21 == run.returncode


@pytest.mark.parametrize("name", NAMES)
def test_a_signal_to_the_group_reaches_the_command_once(aidiag: Aidiag, name: str) -> None:
    """What the terminal, timeout(1) or Slurm send to all processes is not sent to the command a second time."""
    run = started(aidiag)
    os.killpg(run.pid, getattr(signal, f"SIG{name}"))
    shown, _ = run.communicate(timeout=60)

    assert [getattr(signal, f"SIG{name}")] == [int(number) for number in shown.split()]
    assert 21 == run.returncode


def test_a_process_that_signals_one_after_the_other(aidiag: Aidiag, wait_for: Callable[..., Any]) -> None:
    """Slurm signals each process of a step: also then the command gets it once."""
    run = started(aidiag)
    group = wait_for(lambda: members(run.pid), "members")
    for pid in group:
        os.kill(pid, signal.SIGTERM)
    shown, _ = run.communicate(timeout=60)

    assert len(group) >= 3
    assert [signal.SIGTERM] == [int(number) for number in shown.split()]


def members(group: int) -> list[int]:
    """The processes of a group."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (path / "stat").read_text().rsplit(")", 1)[1].split()
            if int(fields[2]) == group:
                found.append(int(path.name))
    return sorted(found)


def test_ignored_signals_stay_ignored(aidiag: Aidiag) -> None:
    """Under nohup the command ignores SIGHUP, as without `run`, and neither it nor `run` ends by one."""
    code = "import signal; print('ready', signal.getsignal(signal.SIGHUP), flush=True); signal.pause()"
    run = aidiag.start(
        *aidiag.python(code),
        stdout=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    assert run.stdout is not None
    assert b"ready 1\n" == run.stdout.readline().replace(b"Handlers.SIG_IGN", b"1")
    run.send_signal(signal.SIGHUP)
    run.send_signal(signal.SIGTERM)

    assert 128 + signal.SIGTERM == run.wait(60)


def test_the_command_starts_with_the_usual_signals(aidiag: Aidiag) -> None:
    """No handler, no blocked and no ignored signal of ours is left in the command."""
    show = "grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status"
    bare = subprocess.run(["sh", "-c", show], capture_output=True, check=True)

    assert masks(bare.stdout) == masks(aidiag.run("sh", "-c", show).stdout)


def masks(text: bytes) -> list[int]:
    """The signal masks of /proc/PID/status, without signals 32 and 33: glibc's own, which its posix_spawn ignores."""
    return [int(line.split()[1], 16) & ~(3 << 31) for line in text.splitlines()]


def test_a_container_s_first_process_collects_orphans(aidiag: Aidiag) -> None:
    """As process 1 of a namespace, `run` reaps what other processes leave, and ends with its command's status."""
    line = aidiag.line("sh", "-c", "(sh -c 'sleep 0.2; exit 3' &) ; sleep 0.6; ps -o stat= -e | grep -c Z; exit 12")
    inside = subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", *line],
        env=aidiag.environ, cwd=aidiag.folder, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    if b"unshare" in inside.stderr:
        pytest.skip(f"no namespaces here: {inside.stderr!r}")

    assert 12 == inside.returncode
    assert b"0\n" == inside.stdout


class Bench:
    """A relay on a table, with a clock to turn."""

    def __init__(self, *, reachable: bool = True) -> None:
        self.now = 100.0
        self.asked = 0
        self.reachable = reachable
        self.delivered: list[int] = []
        self.relay = Relay(self.ask, self.delivered.append, lambda: self.now)

    def ask(self) -> bool:
        """Count a question."""
        self.asked += 1
        return self.reachable

    def later(self, seconds: float) -> None:
        """Let time go by."""
        self.now += seconds
        self.relay.tick()


def test_relay_asks_before_it_delivers() -> None:
    """A signal that the keeper has not seen is delivered when it says so, one that it has seen is not."""
    bench = Bench()
    bench.relay.received(signal.SIGTERM)
    bench.relay.received(signal.SIGUSR1)
    bench.later(SPREAD_SECONDS / 2)
    assert (0, []) == (bench.asked, bench.delivered)
    bench.later(SPREAD_SECONDS)
    assert (1, []) == (bench.asked, bench.delivered)
    bench.relay.answered([signal.SIGTERM])

    assert [signal.SIGUSR1] == bench.delivered
    assert bench.relay.wait_seconds() is None


@pytest.mark.parametrize("reachable", [True, False])
def test_relay_delivers_where_no_answer_comes(reachable: bool) -> None:
    """A silent keeper is waited for a second, a missing one not at all; then the command gets the signal."""
    bench = Bench(reachable=reachable)
    bench.relay.received(signal.SIGTERM)
    bench.later(SPREAD_SECONDS)
    assert bench.delivered == ([] if reachable else [signal.SIGTERM])
    bench.later(ANSWER_SECONDS)

    assert [signal.SIGTERM] == bench.delivered
