"""The user's cache folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidiag.collectors.user_cache import cache_folder, keep_newest, write_cache


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, Path("/x/aidiag")),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, Path("/h/.cache/aidiag")),
        ({"HOME": "/h"}, Path("/h/.cache/aidiag")),
        ({}, None),
    ],
)
def test_the_cache_lies_where_the_user_keeps_caches(environ: dict[str, str], folder: Path | None) -> None:
    """The cache folder follows the XDG base directory specification."""
    assert folder == cache_folder(environ)


def test_a_file_is_private_and_replaced_whole(tmp_path: Path) -> None:
    """What is written is there under its name alone, for its user alone."""
    path = tmp_path / "aidiag" / "things.bin"
    write_cache(path, b"one")
    write_cache(path, b"two")

    assert b"two" == path.read_bytes()
    assert [path] == list(path.parent.iterdir())
    assert (0o600, 0o700) == (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777)


def test_where_nothing_can_be_written_nothing_happens(tmp_path: Path) -> None:
    """A cache is a convenience: a folder that cannot be made, or a name that is taken, is passed over."""
    (tmp_path / "file").write_text("")
    write_cache(tmp_path / "file" / "things.bin", b"one")
    (tmp_path / "things.bin").mkdir()
    write_cache(tmp_path / "things.bin", b"one")
    keep_newest(tmp_path / "none", "*", 1)

    assert ["file", "things.bin"] == sorted(path.name for path in tmp_path.iterdir())
