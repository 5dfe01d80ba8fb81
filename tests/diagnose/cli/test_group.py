from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

from aidiag.diagnose.cli import group as group_module
from aidiag.diagnose.cli.group import COMMANDS, failure

ROOT = Path(__file__).resolve().parents[3]


def aidiag(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """The command, as a process of its own."""
    line = [sys.executable, "-m", "aidiag", *words]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIDIAG_")}
    return subprocess.run(
        line, env={**inherited, **environ}, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",)])
def test_help_lists_every_command(words: tuple[str, ...]) -> None:
    """`aidiag` alone and with --help show all commands that are not hidden, on stdout."""
    told = aidiag(*words)

    assert (0, "") == (told.returncode, told.stderr)
    for name, entry in COMMANDS.items():
        assert entry.hidden != (f"\n  {name} " in told.stdout)


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_of_the_table_is_there(name: str) -> None:
    """Each entry leads to a command of that name, and its own help tells more than the table."""
    entry = COMMANDS[name]
    command = getattr(import_module(f"aidiag.diagnose.cli.{entry.module}"), f"{name.replace('-', '_')}_command")

    assert isinstance(command, click.Command)
    assert name == command.name
    assert command.help


def test_help_imports_no_command() -> None:
    """`aidiag --help` imports nothing of the commands, of torch or of the collectors."""
    code = "import sys\nfrom aidiag.diagnose.cli.group import main\n"
    code += "try: main(['--help'])\nexcept SystemExit: print(sorted(sys.modules), file=sys.stderr)"
    told = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = [name for name in eval(told.stderr) if name.split(".")[0] in ("torch", "rich", "psutil", "aidiag")]

    assert ["aidiag", "aidiag.diagnose", "aidiag.diagnose.cli", "aidiag.diagnose.cli.group"] == loaded


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("rnu",), "no command 'rnu', did you mean 'run'?"),
        (("xyzzy",), "no command 'xyzzy'; aidiag --help"),
        (("run",), "run: Missing argument"),
        (("run", "--prot", "1", "true"), "run: No such option '--prot'"),
        (("run", "--port", "x", "true"), "run: Invalid value for '--port'"),
        (("run", "--port", "70000", "true"), "70000"),
        (("run", "--report", "/", "true"), "run: Invalid value for '--report'"),
        (("env", "--shell", "perl"), "env: Invalid value for '--shell'"),
        (("env", "superfluous"), "env: Got unexpected extra argument"),
        (("shim",), "shim: Missing command"),
        (("--nonsense",), "No such option '--nonsense'"),
    ],
)
def test_a_wrong_call_is_one_line_and_status_3(words: tuple[str, ...], told: str) -> None:
    """The line says which command, what is wrong, and starts with the program's name."""
    ended = aidiag(*words)

    assert (3, "") == (ended.returncode, ended.stdout)
    assert ended.stderr.startswith("aidiag: ")
    assert 1 == ended.stderr.count("\n")
    assert told in ended.stderr


class PlantedError(Exception):
    """An error of ours, with a remedy."""

    remedy = "mend the file"


PlantedError.__module__ = "aidiag.rules.planted"


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "/x"), "/x: No such file or directory"),
        (OSError("bare"), "internal error: OSError: bare (AIDIAG_DEBUG=1 shows where)"),
        (PlantedError("a.yaml:3:1: unknown key"), "a.yaml:3:1: unknown key; mend the file"),
        (ValueError("two\nlines"), "internal error: ValueError: two lines (AIDIAG_DEBUG=1 shows where)"),
        (click.ClickException("said"), "said"),
    ],
)
def test_what_a_failure_says(problem: Exception, line: str) -> None:
    """Place and reason for errors of files and of ours, the type for those that nobody foresaw; always one line."""
    assert line == failure(problem)


BREAKS = """
import sys
from aidiag.diagnose.cli import env, group
def broken(*_, **__): raise {error}
import aidiag.diagnose.run.environment as environment
environment.additions = broken
sys.argv[1:] = ["env"]
group.main()
"""


@pytest.mark.parametrize(
    ("error", "status", "last"),
    [
        ("RuntimeError('planted')", 3, "aidiag: internal error: RuntimeError: planted (AIDIAG_DEBUG=1 shows where)"),
        ("KeyboardInterrupt", 130, ""),
        ("BrokenPipeError", 0, ""),
        ("SystemExit(7)", 7, ""),
    ],
)
def test_how_a_crash_ends(tmp_path: Path, error: str, status: int, last: str) -> None:
    """A fault in a command is status 3 and one line; Ctrl-C is 130; a reader that has gone is no fault."""
    line = [sys.executable, "-c", BREAKS.format(error=error)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(line, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (status, last) == (ended.returncode, ended.stderr.strip())
    ended = subprocess.run(
        line, env={**environ, "AIDIAG_DEBUG": "1"}, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ("Traceback" in ended.stderr) == (status == 3)


def test_a_reader_that_has_gone(tmp_path: Path) -> None:
    """`aidiag ... | head -0` leaves nothing on stderr."""
    line = f"{sys.executable} -m aidiag env --shell json; echo $? >&2"
    ended = subprocess.run(
        ["sh", "-c", f"sleep 0 | true; ({line}) | true"],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert "0" == ended.stderr.strip()


def test_version() -> None:
    """--version prints it."""
    from aidiag import __version__

    assert __version__ in aidiag("--version").stdout


def test_env_prints_what_run_would_set(tmp_path: Path) -> None:
    """`aidiag env` pins the job's id, keeps the user's path, makes the folder for NCCL's logs, and starts nothing."""
    environ = {
        "PYTHONPATH": f"{ROOT}:/mine",
        "AIDIAG_JOB_ID": "j",
        "AIDIAG_OUT": str(tmp_path),
        "PATH": os.environ["PATH"],
    }
    line = [sys.executable, "-m", "aidiag", "env", "--shell", "json"]
    told = subprocess.run(line, env=environ, cwd=tmp_path, capture_output=True, text=True, check=True)
    variables = json.loads(told.stdout)

    assert f"{ROOT}/trainer_shim/inject:{ROOT}:/mine" == variables["PYTHONPATH"]
    assert ("j", str(tmp_path)) == (variables["AIDIAG_JOB_ID"], variables["AIDIAG_OUT"])
    host = tmp_path / "aidiag-j" / os.uname().nodename
    assert f"{host}/nccl.%h.%p.log" == variables["NCCL_DEBUG_FILE"]
    assert [] == list(host.iterdir())


def test_env_without_nccl(tmp_path: Path) -> None:
    """--no-nccl leaves NCCL's logging alone."""
    told = aidiag("env", "--no-nccl", "--out", str(tmp_path), "--shell", "json")

    assert not [name for name in json.loads(told.stdout) if name.startswith("NCCL")]


@pytest.mark.parametrize("shell", ["docker", "k8s"])
def test_env_for_another_machine(shell: str) -> None:
    """For an image neither this machine's folders nor its search path are told; the shim is where it was exported to."""
    told = aidiag("env", "--shell", shell, "--inject", "/opt/aidiag/inject", PYTHONPATH=f"{ROOT}:/mine")

    assert "/opt/aidiag/inject" in told.stdout
    assert "/mine" not in told.stdout
    assert "NCCL" not in told.stdout


def test_table_entries_are_told_apart() -> None:
    """The table's order is that of the help, and no two entries share a module."""
    assert list(COMMANDS) == group_module.group.list_commands(click.Context(group_module.group))
    assert len({entry.module for entry in COMMANDS.values()}) == len(COMMANDS)


def test_shim_export(tmp_path: Path) -> None:
    """The copy is put where asked, what goes on PYTHONPATH is printed, and python starts with it, without aidiag."""
    told = aidiag("shim", "export", str(tmp_path / "image"))
    name, _, inject = told.stdout.strip().partition("=")

    assert (0, "PYTHONPATH") == (told.returncode, name)
    assert Path(inject).is_relative_to(tmp_path / "image")
    show = "import sys; print(sys.modules['sitecustomize'].__file__)"
    started = subprocess.run(
        [sys.executable, "-c", show],
        env={"PYTHONPATH": inject},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert started.stdout.startswith(inject)


def test_shim_export_to_a_place_that_cannot_be_written() -> None:
    """One line with the place, and status 3."""
    ended = aidiag("shim", "export", "/proc/none")

    assert (3, "") == (ended.returncode, ended.stdout)
    assert "/proc/none" in ended.stderr
    assert 1 == ended.stderr.count("\n")
