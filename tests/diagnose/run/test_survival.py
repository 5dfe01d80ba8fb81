"""Whatever of aidiag dies, the command goes on."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.diagnose.run.conftest import Aidiag

LINES = 120_000
TRAINS = f"""
import os, sys, time
def say(number):
    print(f"step {{number}} " + "x" * 30, flush=True)
    if number % 7 == 0:
        print(f"note {{number}}", file=sys.stderr, flush=True)
say(0)
while not os.path.exists("go"): time.sleep(0.01)
for number in range(1, {LINES}):
    say(number)
    if number == 2000: open("on", "w").close()
open("result", "w").write(str(sum(range({LINES}))))
print("trained", flush=True)
"""
STDOUT = b"".join(b"step %d %s\n" % (number, b"x" * 30) for number in range(LINES)) + b"trained\n"
STDERR = b"".join(b"note %d\n" % number for number in range(0, LINES, 7))
RESULT = str(sum(range(LINES)))


def trained(aidiag: Aidiag) -> bool:
    """Whether the command has left its result, the right one."""
    path = aidiag.folder / "result"
    return path.exists() and path.read_text() == RESULT


def start(aidiag: Aidiag, wait_for: Callable[..., Any], *options: str) -> tuple[subprocess.Popen[bytes], int]:
    """A run with its output in files, whose command has begun: the run, and the command's process id."""
    with (aidiag.folder / "out").open("wb") as out, (aidiag.folder / "err").open("wb") as err:
        run = aidiag.start(*aidiag.python(TRAINS), options=("--quiet", *options), stdout=out, stderr=err)
    wait_for(lambda: (aidiag.folder / "out").stat().st_size, "first line")
    child = wait_for(lambda: [run.child for run in aidiag.runs() if run.child], "child known")[0]
    return run, child.pid


def keeper(run: int) -> int:
    """The process id of a run's keeper."""
    (pid,) = [int(line) for line in children(run) if name(int(line)) == "aidiag-keeper"]
    return pid


def children(pid: int) -> list[str]:
    """The children of a process."""
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def name(pid: int) -> str:
    """The name of a process."""
    return Path(f"/proc/{pid}/comm").read_text().strip()


def shown(aidiag: Aidiag) -> tuple[bytes, bytes]:
    """What the user's files hold."""
    return (aidiag.folder / "out").read_bytes(), (aidiag.folder / "err").read_bytes()


def captured(aidiag: Aidiag, stream: str) -> bytes:
    """What the capture of a stream holds, without our marks."""
    (run,) = aidiag.runs()
    return re.sub(rb"\[aidiag\] [^\n]*\n", b"", aidiag.host.capture(stream, run.key).read_bytes())


@pytest.mark.live
@pytest.mark.parametrize("moment", ["before", "amid"])
def test_kill_9_of_run(aidiag: Aidiag, wait_for: Callable[..., Any], moment: str) -> None:
    """When `run` is killed, while its command waits or while it prints megabytes, the command does all its work, the
    user's files and the capture get every byte, and the run's file says that nobody knows the exit status.
    """
    run, child = start(aidiag, wait_for)
    if moment == "before":
        run.kill()
        run.wait()
    (aidiag.folder / "go").touch()
    if moment == "amid":
        wait_for((aidiag.folder / "on").exists, "under way")
        run.kill()
        run.wait()
    wait_for(lambda: trained(aidiag), "trained")
    wait_for(lambda: aidiag.runs()[0].ended, "end noted")
    wait_for(lambda: (STDOUT, STDERR) == shown(aidiag), "all shown")
    wait_for(lambda: captured(aidiag, "stdout") == STDOUT and captured(aidiag, "stderr") == STDERR, "all captured")

    assert aidiag.runs()[0].lost
    assert aidiag.runs()[0].exit_status is None
    wait_for(lambda: not Path(f"/proc/{child}").exists(), "command gone")


@pytest.mark.live
def test_a_stopped_run(aidiag: Aidiag, wait_for: Callable[..., Any]) -> None:
    """While `run` is stopped (Ctrl-Z, a debugger) the command goes on and all its output is shown; later it is ended
    well.
    """
    run, _ = start(aidiag, wait_for)
    run.send_signal(signal.SIGSTOP)
    (aidiag.folder / "go").touch()
    wait_for(lambda: trained(aidiag), "trained")
    wait_for(lambda: (STDOUT, STDERR) == shown(aidiag), "all shown")
    run.send_signal(signal.SIGCONT)

    assert 0 == run.wait(60)


@pytest.mark.live
def test_kill_9_of_the_keeper(aidiag: Aidiag, wait_for: Callable[..., Any]) -> None:
    """When the keeper is killed amid megabytes, another takes over: the command does all its work, `run` has its exit
    status, and of the output at most what the keeper had in its hands is missing.
    """
    run, _ = start(aidiag, wait_for)
    (aidiag.folder / "go").touch()
    wait_for((aidiag.folder / "on").exists, "under way")
    first = keeper(run.pid)
    os.kill(first, signal.SIGKILL)

    assert 0 == run.wait(120)
    assert trained(aidiag)
    out, err = shown(aidiag)
    assert out.endswith(STDOUT[-1000:])
    assert len(STDOUT) - 65536 <= len(out) <= len(STDOUT)
    assert len(STDERR) - 65536 <= len(err) <= len(STDERR)
    (file,) = aidiag.runs()
    assert 0 == file.exit_status
    assert b"taken up again" in aidiag.host.capture("stdout", file.key).read_bytes()


@pytest.mark.live
def test_keepers_that_keep_dying(aidiag: Aidiag, wait_for: Callable[..., Any]) -> None:
    """When every keeper is killed, `run` moves the output itself."""
    run, _ = start(aidiag, wait_for)
    for _ in range(5):
        pid = wait_for(lambda: [int(pid) for pid in children(run.pid) if name(int(pid)) == "aidiag-keeper"], "keeper")[
            0
        ]
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda pid=pid: not Path(f"/proc/{pid}").exists(), "keeper gone")
    (aidiag.folder / "go").touch()

    assert 0 == run.wait(120)
    assert trained(aidiag)
    assert (STDOUT, STDERR) == shown(aidiag)


@pytest.mark.live
def test_a_stopped_keeper_is_replaced(aidiag: Aidiag, wait_for: Callable[..., Any]) -> None:
    """A keeper that is alive and does nothing would fill the pipes: `run` notices, and the command ends."""
    run, _ = start(aidiag, wait_for)
    os.kill(keeper(run.pid), signal.SIGSTOP)
    (aidiag.folder / "go").touch()

    assert 0 == run.wait(200)
    assert trained(aidiag)
    assert shown(aidiag)[0].endswith(STDOUT[-1000:])


@pytest.mark.live
def test_kill_9_of_the_sidecar(aidiag: Aidiag, wait_for: Callable[..., Any]) -> None:
    """When the sidecar is killed the command notices nothing, and a new sidecar is started."""
    run, _ = start(aidiag, wait_for)
    log = wait_for(lambda: aidiag.host.sidecar_log.read_text(), "sidecar started")
    os.kill(int(log.split()[1]), signal.SIGKILL)
    wait_for(lambda: aidiag.sidecars_started() == 2, "second sidecar")
    (aidiag.folder / "go").touch()

    assert 0 == run.wait(120)
    assert trained(aidiag)
    assert (STDOUT, STDERR) == shown(aidiag)


@pytest.mark.live
def test_everything_of_ours_killed_at_once(aidiag: Aidiag, wait_for: Callable[..., Any]) -> None:
    """The twin that shows what the keeper is for: with `run` and keeper both gone, a command that prints on dies."""
    run, child = start(aidiag, wait_for)
    second = keeper(run.pid)
    os.kill(run.pid, signal.SIGKILL)
    os.kill(second, signal.SIGKILL)
    run.wait()
    (aidiag.folder / "go").touch()
    wait_for(lambda: not Path(f"/proc/{child}").exists(), "command gone")

    assert not trained(aidiag)


@pytest.mark.live
def test_kill_9_of_run_on_a_terminal(aidiag: Aidiag, wait_for: Callable[..., Any]) -> None:
    """The same where the output went to a terminal, which stays: no hang-up, no broken pipe, all captured."""
    line = aidiag.line(*aidiag.python(TRAINS), options=["--quiet"])
    window = subprocess.Popen(
        ["script", "-qfc", f"{shlex.join(line)}; sleep 100", aidiag.folder / "typescript"],
        env=aidiag.environ, cwd=aidiag.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    aidiag.processes.append(window)
    file = wait_for(lambda: [run for run in aidiag.runs() if run.child], "child known")[0]
    assert file.run is not None
    os.kill(file.run.pid, signal.SIGKILL)
    (aidiag.folder / "go").touch()
    wait_for(lambda: trained(aidiag), "trained")
    wait_for(lambda: aidiag.runs()[0].ended, "end noted")

    assert {"stdout": f"stdout-{file.key}.log"} == file.captures
    wait_for(lambda: captured(aidiag, "stdout").endswith(b"trained\n"), "all captured")
