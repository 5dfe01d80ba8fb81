"""Reading small files that others may have made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aidiag.collectors.bounded import read_bounded


def test_reading_refuses_what_a_job_may_have_put_there(tmp_path: Path) -> None:
    """Links, pipes and files above the limit are refused at once; a plain file is read."""
    (tmp_path / "plain").write_text("x" * 100)
    (tmp_path / "link").symlink_to(tmp_path / "plain")
    os.mkfifo(tmp_path / "pipe")

    assert b"x" * 100 == read_bounded(tmp_path / "plain")
    for name in ("link", "pipe"):
        with pytest.raises(OSError, match=r"symbolic links|not a plain file"):
            read_bounded(tmp_path / name)
    with pytest.raises(OSError, match="larger than 99 bytes"):
        read_bounded(tmp_path / "plain", 99)


@pytest.mark.parametrize(("mode", "taken"), [(0o600, True), (0o644, True), (0o664, False), (0o606, False)])
def test_our_own_files_are_those_that_nobody_else_may_write(tmp_path: Path, mode: int, taken: bool) -> None:
    """Of what is to be trusted only what this user alone may write is read."""
    path = tmp_path / "cache"
    path.write_text("x")
    path.chmod(mode)

    assert b"x" == read_bounded(path)
    if taken:
        assert b"x" == read_bounded(path, ours=True)
    else:
        with pytest.raises(PermissionError, match="this user alone"):
            read_bounded(path, ours=True)
