"""Owners: which process a file belongs to, and whether it lives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aidiag.trainer_shim import owner

HERE = owner.this_process()


def test_names_come_back() -> None:
    """The name of a file says its owner and its kind, and no two names are the same."""
    assert (HERE, "record", "") == owner.parse_file_name(owner.file_name(HERE))
    assert (HERE, "off", "no_space") == owner.parse_file_name(owner.file_name(HERE, "off", "no_space"))
    assert owner.file_name(HERE) != owner.file_name(HERE)


@given(st.text(max_size=120))
def test_other_names_are_none(name: str) -> None:
    """A name that the shim did not make says nothing."""
    assert owner.parse_file_name(name) is None


def test_this_process_lives() -> None:
    """A process knows itself, and its parent by number."""
    assert owner.lives(HERE, HERE) is True
    assert os.getppid() == owner.read_parent(os.getpid())


def test_an_old_number_is_not_a_life() -> None:
    """A process with the number of another, started at another time or under another boot, is not it."""
    assert owner.lives(HERE._replace(start_ticks=HERE.start_ticks + 1), HERE) is False
    assert owner.lives(HERE._replace(boot_id="0" * 32), HERE) is False


def test_another_namespace_cannot_be_told() -> None:
    """Whether a process of another namespace lives is unknown, which is neither yes nor no."""
    assert owner.lives(HERE._replace(pid_namespace=1), HERE) is None


def test_a_zombie_has_ended() -> None:
    """A process that has ended and was not waited for yet does not live."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    ticks = owner.read_start_ticks(child.pid)
    assert ticks is not None
    them = HERE._replace(pid=child.pid, start_ticks=ticks)
    assert owner.lives(them, HERE) is True
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert owner.lives(them, HERE) is False
    child.communicate()


def test_a_name_with_brackets(tmp_path: Path) -> None:
    """A process may call itself anything: its numbers are found behind the last bracket."""
    (tmp_path / "9").mkdir()
    fields = " ".join(str(number) for number in range(4, 53))
    (tmp_path / "9" / "stat").write_text(f"9 (a) S 1 (b) R {fields}\n")

    assert 22 == owner.read_start_ticks(9, str(tmp_path))
    assert owner.read_start_ticks(10, str(tmp_path)) is None


@pytest.mark.parametrize("text", ["", "9 (a)", "9 (a) S 1"])
def test_a_stat_that_is_cut(tmp_path: Path, text: str) -> None:
    """A process that goes while it is read has no start time."""
    (tmp_path / "9").mkdir()
    (tmp_path / "9" / "stat").write_text(text)

    assert owner.read_start_ticks(9, str(tmp_path)) is None
