"""Stand-ins for the tools of schedulers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from aidiag.diagnose.cli import main

Answer = tuple[int, str, str]
"""Exit status, standard output, standard error."""

STAND_IN = """\
#!{python}
import json, pathlib, sys
words = " ".join(sys.argv[1:])
with open({calls!r}, "a") as calls:
    print({name!r}, words, file=calls)
answers = json.loads(pathlib.Path({answers!r}).read_text())
status, out, error = next((answer for part, answer in answers if part in words), (64, "", "not asked for: " + words))
sys.stdout.write(out)
sys.stderr.write(error)
sys.exit(status)
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Callable[[], list[str]]]:
    """Puts programs on an otherwise empty PATH that answer by a part of their command line; gives how they were called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    calls = tmp_path / "calls"
    calls.touch()

    def make(**programs: Mapping[str, Answer]) -> Callable[[], list[str]]:
        for name, answers in programs.items():
            (folder / f"{name}.json").write_text(json.dumps(list(answers.items())))
            text = STAND_IN.format(
                python=sys.executable, calls=str(calls), name=name, answers=str(folder / f"{name}.json")
            )
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        return lambda: calls.read_text().splitlines()

    return make


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """This machine's own settings and language play no part."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs a command line: its exit status, what it printed, and what it complained of."""

    def run_it(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert isinstance(ended.value.code, int)
        printed = capsys.readouterr()
        return ended.value.code, printed.out, printed.err

    return run_it
