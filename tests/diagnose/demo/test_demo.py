from __future__ import annotations

import ast
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from aidiag.diagnose.cli.demo import FAULTS as NAMES
from aidiag.diagnose.demo.faults import FAULTS, Fault
from aidiag.rules.finding import Culprit, Finding

ROOT = Path(__file__).resolve().parents[3]
TRAIN = ROOT / "diagnose/demo/train.py"

FINDING = Finding(
    id="f", cause="straggler", rule="straggler", severity="warning", confidence=0.9, title="", summary="",
    culprit=Culprit("rank", ranks=(1,)), since=None, found_at=None, evidence=(), why="", remedy=(),
)  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "findings", "found"),
    [
        ("straggler", [FINDING], True),
        ("straggler", [replace(FINDING, culprit=Culprit("rank", ranks=(0,)))], False),
        ("straggler", [replace(FINDING, culprit=None)], False),
        ("straggler", [replace(FINDING, cause="util_input_bound")], False),
        ("straggler", [replace(FINDING, severity="info")], False),
        ("straggler", [], False),
        ("slow-loader", [replace(FINDING, cause="util_input_bound", culprit=None)], True),
        ("healthy", [], True),
        ("healthy", [replace(FINDING, severity="info")], True),
        ("healthy", [FINDING], False),
    ],
)
def test_whether_a_report_says_what_was_planted(fault: str, findings: list[Finding], found: bool) -> None:
    """Cause and rank must be right; a healthy job must have no alarm."""
    assert found == FAULTS[fault].found_in(findings)


def test_the_command_offers_every_fault() -> None:
    """The names of the command line are those of the table, in its order."""
    assert list(NAMES) == list(FAULTS)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=list(FAULTS))
def test_the_script_knows_the_options(fault: Fault) -> None:
    """Every option of a fault is one of train.py."""
    known = {
        node.args[0].value
        for node in ast.walk(ast.parse(TRAIN.read_text()))
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)
    }

    assert {word for word in fault.options if word.startswith("--")} <= known


def test_the_script_knows_nothing_of_aidiag() -> None:
    """It is a user's script: it imports torch and the standard library only."""
    imported = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(TRAIN.read_text()))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }

    assert {"torch"} == imported - set(sys.stdlib_module_names)


def test_without_torch(tmp_path: Path) -> None:
    """One line that says what is missing and how to get it, and status 3."""
    code = "import sys\nfrom aidiag.diagnose.demo import show\nshow.find_spec = lambda _name: None\n"
    code += "from aidiag.diagnose.cli.group import main\nmain(['demo', 'healthy'])"
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environ, cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert (3, "") == (ended.returncode, ended.stdout)
    assert ended.stderr.startswith("aidiag: demo: torch is not installed; ")
    assert "pip install 'aidiag[torch]'" in ended.stderr
    assert 1 == ended.stderr.count("\n")
