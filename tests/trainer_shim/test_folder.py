"""The folder of records: ours, on a tmpfs, and never a burden."""

from __future__ import annotations

import os
import resource
import stat
import time
from pathlib import Path

import pytest

from aidiag.trainer_shim import folder, layout, owner

HERE = owner.this_process()


def create(path: Path) -> Path:
    """A new record in a folder."""
    made, fd = folder.create_record({"AIDIAG_DIR": str(path)}, HERE)
    os.close(fd)
    return Path(made)


def test_a_record_is_reserved_and_private(memory_folder: Path) -> None:
    """All blocks of a new record are there, nobody else may read it, and its name says whose it is."""
    made = create(memory_folder)
    facts = made.stat()

    assert layout.FILE_BYTES == facts.st_size <= facts.st_blocks * 512
    assert 0o600 == stat.S_IMODE(facts.st_mode)
    parsed = owner.parse_file_name(made.name)
    assert parsed is not None and (HERE, "record") == (parsed.owner, parsed.kind)


def test_a_missing_folder_is_made_private(memory_folder: Path) -> None:
    """A folder that is not there yet is made with mode 0700."""
    made = create(memory_folder / "new")

    assert 0o700 == stat.S_IMODE(made.parent.stat().st_mode)


def refused(path: Path) -> folder.OffError:
    """The error of a folder that will not do."""
    with pytest.raises(folder.OffError) as caught:
        create(path)
    return caught.value


def test_a_folder_on_a_disk_is_refused(memory_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Off a tmpfs the shim would wait for disks: it stays off and says where it looked."""
    real = Path("/var/tmp") / f"aidiag-test-{os.getpid()}"
    real.mkdir(mode=0o700)
    try:
        fd = os.open(real, os.O_RDONLY)
        on_tmpfs = folder.is_tmpfs(fd)
        os.close(fd)
        if on_tmpfs:
            pytest.skip("/var/tmp is a tmpfs here")
        error = refused(real)
    finally:
        real.rmdir()

    assert "not_tmpfs" == error.code and str(real) in error.reason


def test_a_folder_that_others_can_write_to_is_refused(memory_folder: Path) -> None:
    """Whoever can write to the folder could take a record's place."""
    memory_folder.chmod(0o777)
    error = refused(memory_folder)

    assert "foreign_folder" == error.code and "chmod 700" in error.reason


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a folder away needs root")
def test_a_folder_of_somebody_else_is_refused(memory_folder: Path) -> None:
    """A folder that another user has put in our place is not used."""
    os.chown(memory_folder, 12345, 12345)
    error = refused(memory_folder)

    assert "foreign_folder" == error.code and "12345" in error.reason


def test_a_link_is_not_followed(memory_folder: Path) -> None:
    """A link in the place of the folder is refused, wherever it leads."""
    (memory_folder / "real").mkdir(mode=0o700)
    (memory_folder / "link").symlink_to("real")

    assert "no_folder" == refused(memory_folder / "link").code


def test_a_file_size_limit_is_asked_first(memory_folder: Path) -> None:
    """Under `ulimit -f` the shim stays off, since going on would end the trainer by SIGXFSZ."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (layout.FILE_BYTES - 1, hard))
    try:
        error = refused(memory_folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert "file_size_limit" == error.code
    assert [] == list(memory_folder.iterdir())


def test_the_dead_are_reaped_after_an_hour(memory_folder: Path) -> None:
    """What ended processes left goes after an hour; the living, strangers and other namespaces stay."""
    dead = HERE._replace(pid=4_000_000)
    elsewhere = dead._replace(pid_namespace=1)
    names = {owner.file_name(who) for who in (HERE, elsewhere)} | {"notes.txt"}
    gone = {owner.file_name(dead), owner.file_name(dead, "off", "no_space")}
    for name in names | gone:
        (memory_folder / name).touch()
    fd = os.open(memory_folder, os.O_RDONLY)
    try:
        folder.reap(fd, HERE)
        assert names | gone == {path.name for path in memory_folder.iterdir()}
        folder.reap(fd, HERE, now=time.time() + 3700)
    finally:
        os.close(fd)

    assert names == {path.name for path in memory_folder.iterdir()}


def test_a_full_folder_loses_its_dead_first(memory_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the limit the oldest dead give way at once; a folder full of the living is refused."""
    monkeypatch.setattr(folder, "FILES_LIMIT", 4)
    for pid in range(4_000_000, 4_000_004):
        (memory_folder / owner.file_name(HERE._replace(pid=pid))).touch()
    create(memory_folder)
    assert 4 == len(list(memory_folder.iterdir()))
    for _ in range(3):
        create(memory_folder)

    assert "too_many_files" == refused(memory_folder).code


def test_the_usual_folders() -> None:
    """A chosen folder is the only one; else the daemon's comes before our own."""
    assert ("/x",) == folder.candidates({"AIDIAG_DIR": "/x"}, 7)
    assert ("/run/aidiag/u/7", "/dev/shm/aidiag-7") == folder.candidates({}, 7)
