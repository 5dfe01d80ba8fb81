from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aidiag.diagnose.job.folder import (
    NAME_LIMIT,
    FolderError,
    make,
    open_to_append,
    path_component,
    places,
    write_atomically,
)
from aidiag.diagnose.job.locks import local_lock, lock


@pytest.mark.parametrize("name", ["node-a", "1234", "a.b_c-D", "x" * NAME_LIMIT])
def test_plain_names_stay(name: str) -> None:
    """What is harmless is used as it is."""
    assert name == path_component(name)


@given(st.text(max_size=200))
def test_any_name_becomes_one_safe_component(name: str) -> None:
    """Whatever the name: one component of plain characters, not hidden, not an option, of bounded length."""
    safe = path_component(name)

    assert safe
    assert len(safe) <= NAME_LIMIT
    assert all(character.isascii() and (character.isalnum() or character in "._-") for character in safe)
    assert safe[0] not in ".-"


@given(st.text(max_size=120), st.text(max_size=120))
def test_different_names_stay_different(one: str, other: str) -> None:
    """Two job ids never share a folder."""
    assert (one == other) == (path_component(one) == path_component(other))


def test_made_folders_follow_the_user_s_umask(tmp_path: Path) -> None:
    """Group rights as the umask says, never writable for all."""
    for umask, mode in ((0o022, 0o755), (0o077, 0o700), (0o002, 0o775), (0, 0o775)):
        before = os.umask(umask)
        try:
            job, host = make(tmp_path / f"{umask:o}", "j", "a")
        finally:
            os.umask(before)
        assert (mode, mode) == (job.path.stat().st_mode & 0o777, host.path.stat().st_mode & 0o777)


def test_a_folder_that_is_there_is_taken(tmp_path: Path) -> None:
    """A second host or run finds what the first made, and both are listed."""
    make(tmp_path, "j", "a")
    job, host = make(tmp_path, "j", "b")
    make(tmp_path, "j", "b")

    assert [job.host("a"), host] == job.hosts()


def test_links_and_files_are_no_folders(tmp_path: Path) -> None:
    """A link in the place of the folder is refused, wherever it leads."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "aidiag-link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "aidiag-file").touch()

    for job in ("link", "file"):
        with pytest.raises(FolderError, match=f"aidiag-{job}: exists and is not a folder"):
            make(tmp_path, job, "a")
    assert [] == list((tmp_path / "elsewhere").iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's folder")
def test_another_user_s_folder_where_all_may_write(tmp_path: Path) -> None:
    """In a place like /tmp a folder that somebody else has put there is refused; in the user's own place it is taken."""
    for place, rights in (("open", 0o1777), ("own", 0o755)):
        (tmp_path / place / "aidiag-j").mkdir(parents=True)
        (tmp_path / place).chmod(rights)
        os.chown(tmp_path / place / "aidiag-j", 12345, 12345)

    make(tmp_path / "own", "j", "a")
    with pytest.raises(FolderError, match="belongs to user 12345"):
        make(tmp_path / "open", "j", "a")


def test_what_cannot_be_made_is_named() -> None:
    """The error names the place and the reason."""
    with pytest.raises(FolderError, match="/proc/none: No such file or directory"):
        make(Path("/proc/none"), "j", "a")


@pytest.mark.parametrize(
    ("out", "environ", "expected"),
    [
        ("x", {"HOME": "/h"}, ["/s/x", "/h/.local/state/aidiag"]),
        ("/x", {"AIDIAG_OUT": "/y"}, ["/x"]),
        (None, {"AIDIAG_OUT": "y"}, ["/s/y"]),
        (None, {"XDG_STATE_HOME": "/state", "HOME": "/h"}, ["/s", "/state/aidiag"]),
        (None, {"XDG_STATE_HOME": "relative"}, ["/s"]),
    ],
)
def test_places(out: str | None, environ: dict[str, str], expected: list[str]) -> None:
    """The option goes before the variable, that before the working directory, and the state folder is the last."""
    found = places(None if out is None else Path(out), environ, start=Path("/s"))

    assert expected == [str(place) for place in found]


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """While a file is replaced many times, a reader sees only whole contents, and no draft is left."""
    path = tmp_path / "state.json"
    write_atomically(path, b"0" * 9000)
    code = f"""
from pathlib import Path
from aidiag.diagnose.job.folder import write_atomically
for n in range(300): write_atomically(Path({str(path)!r}), b"%d" % (n % 10) * 9000)
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[3]) as writer:
        reads = 0
        while writer.poll() is None:
            data = path.read_bytes()
            assert data == data[:1] * 9000
            reads += 1
    assert 0 == writer.returncode
    assert reads > 0
    assert [path] == list(tmp_path.iterdir())


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    """Where the new content cannot be written the old one stands and nothing is left beside it."""
    path = tmp_path / "report.json"
    path.write_text("old")
    with pytest.raises(TypeError):
        write_atomically(path, "no bytes")  # type: ignore[arg-type]

    assert "old" == path.read_text()
    assert [path] == list(tmp_path.iterdir())


def test_appending_goes_into_plain_files_only(tmp_path: Path) -> None:
    """A new file is made and an old one is continued; links and pipes are refused at once and stay as they are."""
    for _ in range(2):
        with open(open_to_append(tmp_path / "plain"), "ab") as file:
            file.write(b"line\n")
    (tmp_path / "link").symlink_to(tmp_path / "plain")
    (tmp_path / "dangling").symlink_to(tmp_path / "none")
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "read pipe")
    reader = os.open(tmp_path / "read pipe", os.O_RDONLY | os.O_NONBLOCK)

    for name in ("link", "dangling", "pipe", "read pipe"):
        with pytest.raises(OSError, match=r"symbolic links|No such device|not a plain file"):
            open_to_append(tmp_path / name)
    os.close(reader)
    assert b"line\nline\n" == (tmp_path / "plain").read_bytes()
    assert not (tmp_path / "none").exists()


def test_a_lock_is_held_by_one(tmp_path: Path) -> None:
    """Nobody else gets it while it is held; after that somebody does."""
    first = lock(tmp_path / "l")
    assert first is not None
    assert lock(tmp_path / "l") is None
    os.close(first)
    again = lock(tmp_path / "l")
    assert again is not None
    os.close(again)


def test_a_child_that_inherits_a_lock_keeps_it(tmp_path: Path) -> None:
    """The lock lives as long as any process has the descriptor: `run` hands it to the sidecar."""
    held = lock(tmp_path / "l")
    assert held is not None
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=(held,))
    os.close(held)
    assert lock(tmp_path / "l") is None
    assert child.stdin is not None
    child.stdin.close()
    child.wait()
    free = lock(tmp_path / "l")

    assert free is not None
    os.close(free)


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where flock is not supported a file in the user's tmpfs folder stands in for it."""
    real = fcntl.flock

    def flock(fd: int, how: int) -> None:
        if Path(f"/proc/self/fd/{fd}").readlink().is_relative_to(tmp_path):
            raise OSError(38, "Function not implemented")
        real(fd, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    first = lock(tmp_path / "l")
    assert first is not None
    assert lock(tmp_path / "l") is None
    os.close(first)
    local_lock(tmp_path / "l").unlink()
