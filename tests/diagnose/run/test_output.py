from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.diagnose.run.conftest import Aidiag

QUIET = ("--quiet",)
EVERY_BYTE = "import sys; data = bytes(range(256)) * 40; [f.buffer.write(data) for f in (sys.stdout, sys.stderr)]"
LARGE = """
import sys
for number in range(200_000):
    print(f"line {number} of the output " + "x" * 20)
    if number % 10 == 0:
        print(f"complaint {number}", file=sys.stderr)
"""


@pytest.mark.parametrize(
    "code",
    [EVERY_BYTE, LARGE, "", "print('no end of line', end='')", "import os; os.write(2, b'\\0\\xff\\r\\n\\x1b[31m')"],
    ids=["every byte", "10 MB", "nothing", "no end of line", "only stderr"],
)
def test_output_is_that_of_the_bare_command(aidiag: Aidiag, code: str) -> None:
    """stdout and stderr arrive byte for byte, apart, and are captured byte for byte."""
    command = aidiag.python(code)
    bare = subprocess.run(command, capture_output=True, check=True)
    ended = aidiag.run(*command, options=QUIET)
    (run,) = aidiag.runs()

    assert bare.stdout == ended.stdout
    assert bare.stderr == ended.stderr
    captured = {name: captured_bytes(aidiag.host.path / file) for name, file in run.captures.items()}
    assert {"stdout": bare.stdout, "stderr": bare.stderr} == captured


def captured_bytes(head: Path) -> bytes:
    """The output in a capture's head and later parts, without our marks."""
    parts = sorted(head.parent.glob(f"{head.stem}.*.log"), key=lambda path: int(path.suffixes[-2][1:]))
    return b"".join(
        line
        for path in (head, *parts)
        for line in path.read_bytes().splitlines(keepends=True)
        if not line.startswith(b"[aidiag] ")
    )


def test_one_file_for_both_keeps_the_order(aidiag: Aidiag) -> None:
    """Where the user has stdout and stderr in one file, they share one capture, in the order of writing."""
    code = "import os\nfor n in range(2000): os.write(1 + n % 2, b'%d\\n' % n)"
    expected = b"".join(b"%d\n" % number for number in range(2000))
    with (aidiag.folder / "log").open("wb") as log:
        aidiag.run(*aidiag.python(code), options=QUIET, stdout=log, stderr=log)
    (run,) = aidiag.runs()

    assert expected == (aidiag.folder / "log").read_bytes()
    assert ["stdout"] == list(run.captures)
    assert expected == aidiag.host.capture("stdout", run.key).read_bytes()


def test_appending_to_a_file_keeps_what_is_in_it(aidiag: Aidiag) -> None:
    """`>> log` appends."""
    log = aidiag.folder / "log"
    log.write_text("before\n")
    with log.open("ab") as file:
        aidiag.run("echo", "after", options=QUIET, stdout=file, stderr=subprocess.DEVNULL)

    assert "before\nafter\n" == log.read_text()


def test_input_reaches_the_command(aidiag: Aidiag) -> None:
    """Standard input is the command's own, to its end."""
    data = os.urandom(3_000_000)

    assert data == aidiag.run("cat", options=QUIET, input=data).stdout


def test_a_command_that_closes_its_input_is_noticed(aidiag: Aidiag) -> None:
    """Who writes to a command that reads no more gets a broken pipe, as without `run`."""
    reading, writing = os.pipe()
    code = "import os, sys, time; os.close(0); print('closed', flush=True); time.sleep(60)"
    run = aidiag.start(*aidiag.python(code), options=QUIET, stdin=reading, stdout=subprocess.PIPE)
    os.close(reading)
    assert run.stdout is not None
    assert b"closed\n" == run.stdout.readline()

    with pytest.raises(BrokenPipeError):
        for _ in range(1000):
            os.write(writing, b"x" * 1000)
    os.close(writing)


def test_a_reader_that_leaves_ends_the_command(aidiag: Aidiag) -> None:
    """`aidiag run -- yes | head -1` ends, with the status of a command that meets a closed pipe."""
    line = aidiag.line("yes", options=QUIET)
    run = subprocess.Popen(line, env=aidiag.environ, cwd=aidiag.folder, stdout=subprocess.PIPE)
    assert run.stdout is not None
    assert b"y\n" == run.stdout.readline()
    run.stdout.close()

    assert 128 + 13 == run.wait(60)


def test_closed_descriptors_do_no_harm(aidiag: Aidiag) -> None:
    """A command started with stdin, stdout and stderr closed runs and gives its status."""
    line = f"exec {shlex.join(aidiag.line('sh', '-c', 'echo lost; exit 9'))} <&- >&- 2>&-"
    ended = subprocess.run(["sh", "-c", line], env=aidiag.environ, cwd=aidiag.folder, check=False)

    assert 9 == ended.returncode


def test_inherited_descriptors_reach_the_command(aidiag: Aidiag) -> None:
    """Descriptors beyond stderr (Slurm's PMI sockets, process substitutions) are handed on, and their reader sees the
    end when the command ends.
    """
    reading, writing = os.pipe()
    aidiag.run(*aidiag.python(f"import os; os.write({writing}, b'through')"), pass_fds=(writing,), capture_output=True)
    os.close(writing)

    assert b"through" == os.read(reading, 100)
    assert b"" == os.read(reading, 100)


def test_no_descriptor_of_ours_reaches_the_command(aidiag: Aidiag) -> None:
    """The command has the descriptors that it has without `run`."""
    code = "import os; print(sorted(os.listdir('/proc/self/fd')))"
    bare = subprocess.run(aidiag.python(code), capture_output=True, check=True)

    assert bare.stdout == aidiag.run(*aidiag.python(code)).stdout


def test_a_full_disk_behind_stdout_does_not_stop_the_job(aidiag: Aidiag) -> None:
    """Output that the user's file does not take is lost there, but the command ends well and the capture has it."""
    with open("/dev/full", "wb") as full:
        ended = aidiag.run(*aidiag.python("print('x' * 100_000); print('trained')"), stdout=full, stderr=full)

    assert 0 == ended.returncode
    (run,) = aidiag.runs()
    assert aidiag.host.capture("stdout", run.key).read_bytes().endswith(b"trained\n")
