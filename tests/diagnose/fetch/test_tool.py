"""Running the tools of schedulers."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from aidiag.diagnose.fetch.tool import ToolError, run


def test_output_stands_behind_the_command(tmp_path: Path) -> None:
    """As on the screen of whoever types it."""
    assert run(["printf", "%s\n", "a b"], tmp_path / "x") == ""
    assert (tmp_path / "x").read_text() == "$ printf '%s\n' 'a b'\na b\n"


def test_too_much_is_cut(tmp_path: Path) -> None:
    """A tool that prints without end does not fill the disk, and is gone afterwards."""
    assert "too much" in run(["yes"], tmp_path / "x", limit_bytes=100_000, echo=False)
    assert (tmp_path / "x").stat().st_size == 100_000


def test_a_tool_that_hangs_is_ended_with_all_its_children(tmp_path: Path) -> None:
    """What it printed until then counts; where that is nothing it is an error. It may close its output, too."""
    script = tmp_path / "hang"
    script.write_text(f"#!/bin/sh\n$1\nsleep 1000 & echo $! > {tmp_path}/pid\nwait\n")
    script.chmod(0o755)
    assert "too long" in run([str(script), "pwd"], tmp_path / "x", deadline_seconds=0.5)
    child = int((tmp_path / "pid").read_text())
    for _ in range(100):
        if not os.path.exists(f"/proc/{child}") or " Z " in Path(f"/proc/{child}/stat").read_text():  # noqa: PTH110
            break
        time.sleep(0.05)
    else:
        pytest.fail("the child is still there")
    with pytest.raises(ToolError, match="has not answered"):
        run([str(script), "true"], tmp_path / "y", deadline_seconds=0.5)
    assert not (tmp_path / "y").exists()


def test_failure_is_told_in_the_words_of_the_tool(tmp_path: Path) -> None:
    """Its last line, without what moves a terminal; what it printed stays."""
    with pytest.raises(ToolError, match=r"^sh: no\\x1b luck$"):
        run(["sh", "-c", "printf 'trying\\nsh: no\\033 luck\\n' >&2; exit 3"], tmp_path / "x")
    assert not (tmp_path / "x").exists()
    with pytest.raises(ToolError, match="ended with status 3"):
        run(["sh", "-c", "echo half; exit 3"], tmp_path / "x")
    assert (tmp_path / "x").read_text().endswith("\nhalf\n")
    with pytest.raises(ToolError, match="not installed") as error:
        run(["no-such-tool"], tmp_path / "y")
    assert error.value.missing
