"""A part of the fuzz run (`python -m tests.fuzzing` is the whole)."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests import fuzzing


@pytest.mark.parametrize("name", fuzzing.PARSERS)
def test_no_input_breaks_a_parser(name: str) -> None:
    """Neither a crash nor a hang."""
    fuzzing.fuzz(name, 400, seed=1)


def test_the_twin_that_breaks_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser that crashes on one input of many is found, with the input, and so is one that hangs."""

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def breaks(data: bytes) -> None:
        if b"\xff" in data:
            raise ZeroDivisionError("planted")

    def hangs(data: bytes) -> None:
        while True:
            pass

    monkeypatch.setitem(fuzzing.PARSERS, "stamp", breaks)
    with pytest.raises(fuzzing.FuzzError, match=r"stamp, seed 1, input .*planted"):
        fuzzing.fuzz("stamp", 1000, seed=1)
    monkeypatch.setattr(fuzzing, "HANG_SECONDS", 1)
    monkeypatch.setitem(fuzzing.PARSERS, "stamp", hangs)
    with pytest.raises(fuzzing.FuzzError, match="no end after 1 s"):
        fuzzing.fuzz("stamp", 1, seed=1)
