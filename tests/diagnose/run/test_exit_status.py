from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.diagnose.run.conftest import Aidiag


@pytest.mark.parametrize("status", [0, 1, 3, 7, 126, 127, 255])
def test_exit_status_is_the_commands(aidiag: Aidiag, status: int) -> None:
    """`run` ends with the status of its command, and the run's file says it."""
    assert status == aidiag.run("sh", "-c", f"exit {status}").returncode

    (run,) = aidiag.runs()
    assert status == run.exit_status
    assert run.ended is not None


@pytest.mark.parametrize("number", ["HUP", "INT", "QUIT", "KILL", "SEGV", "PIPE", "TERM", "USR1", "ABRT"])
def test_a_signal_gives_128_and_its_number(aidiag: Aidiag, number: str) -> None:
    """A command that a signal ends gives 128+N, as in a shell."""
    ended = aidiag.run("sh", "-c", f"ulimit -c 0; kill -{number} $$; sleep 60")

    assert 128 + getattr(signal, f"SIG{number}") == ended.returncode


def test_a_command_that_is_not_there(aidiag: Aidiag) -> None:
    """127, one line, and no job folder."""
    ended = aidiag.run("no-such-command")

    assert 127 == ended.returncode
    assert b"aidiag: no-such-command: command not found\n" == ended.stderr
    assert [] == list(aidiag.folder.iterdir())


@pytest.mark.parametrize("name", ["./plain", "plain", "./folder", "."])
def test_a_command_that_cannot_be_executed(aidiag: Aidiag, name: str) -> None:
    """126, one line, and no job folder, for files without the right to execute and for folders."""
    (aidiag.folder / "plain").write_text("exit 0\n")
    (aidiag.folder / "folder").mkdir()
    aidiag.environ["PATH"] = f"{aidiag.folder}:{aidiag.environ['PATH']}"
    ended = aidiag.run(name)

    assert (127 if name == "." else 126) == ended.returncode
    assert 1 == ended.stderr.count(b"\n")
    assert [] == list(aidiag.folder.glob("aidiag-*"))


def test_a_script_without_interpreter_line_is_run_by_sh(aidiag: Aidiag) -> None:
    """As shells do when the kernel refuses the format."""
    script = aidiag.folder / "script"
    script.write_text('echo "got $1"; exit 4\n')
    script.chmod(0o755)
    ended = aidiag.run("./script", "a b")

    assert 4 == ended.returncode
    assert b"got a b\n" == ended.stdout


def test_words_reach_the_command_unchanged(aidiag: Aidiag) -> None:
    """Options of the command, empty words, quotes and bytes that are no text are handed on as they are."""
    words = ["--port", "1", "-h", "", "a b", "'\"$HOME`", "--", "ü"]
    code = "import os, sys; sys.stdout.buffer.write(b'\\0'.join(map(os.fsencode, sys.argv[1:])))"

    assert [os.fsencode(word) for word in words] == aidiag.run(*aidiag.python(code), *words).stdout.split(b"\0")


def test_disabled_means_the_bare_command(aidiag: Aidiag) -> None:
    """With AIDIAG_DISABLE=1 `run` becomes the command: no folder, no added variable, the same status."""
    aidiag.environ["AIDIAG_DISABLE"] = "1"
    ended = aidiag.run("sh", "-c", 'echo "$NCCL_DEBUG$AIDIAG_JOB_ID"; exit 5')

    assert 5 == ended.returncode
    assert b"\n" == ended.stdout
    assert [] == list(aidiag.folder.iterdir())


def test_leftovers_of_the_command_are_not_waited_for(aidiag: Aidiag, tmp_path: Path) -> None:
    """`run` ends when its command ends, though a process that it left behind holds the output and writes on."""
    done = tmp_path / "done"
    code = f"(while [ ! -e {tmp_path}/stop ]; do echo on; sleep 0.05; done; touch {done}) & exit 6"
    log = (tmp_path / "log").open("wb")
    ended = aidiag.run("sh", "-c", code, stdout=log, stderr=log)
    left_when_ended = done.exists()
    (tmp_path / "stop").touch()

    assert 6 == ended.returncode
    assert not left_when_ended
