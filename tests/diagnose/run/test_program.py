from __future__ import annotations

import os
import sys

import pytest

from aidiag.diagnose.run.program import NotStartableError, spawn


def test_an_environment_that_is_too_long() -> None:
    """Where our additions are one word too many, the command starts with the user's own environment."""
    code = "import os, sys; sys.exit(40 + ('MARK' in os.environ))"
    for environ, status in (({"MARK": "x" * 200_000}, 40), ({"MARK": "x"}, 41)):
        pid = spawn(sys.executable, ["python", "-c", code], environ, (), plain={})
        assert status == os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_what_cannot_start_says_why() -> None:
    """A reason from the kernel is the command's error, with the status that shells use."""
    with pytest.raises(NotStartableError, match="x: Argument list too long") as told:
        spawn(sys.executable, ["x", "y" * 200_000], {}, (), plain={})

    assert 126 == told.value.status
