"""Finding records: all that are ours, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aidiag.collectors.records import DEAD_KEPT_SECONDS, FoundRecord, RecordFinder, newest, records_of
from aidiag.trainer_shim import owner
from aidiag.trainer_shim.model import RecordError

ROOT = Path(__file__).resolve().parents[3]
HERE = owner.this_process()
GONE = HERE._replace(pid=4_100_000)


def ranks(found: list[FoundRecord]) -> list[int]:
    """The ranks of records."""
    return sorted(one.record.identity.rank for one in found)


def test_records_of_a_job(folder: Path, trainer: Callable[..., Any]) -> None:
    """Living and ended ranks of the job are found, each marked; other jobs' are not."""
    trainer(0)
    trainer(1, GONE)
    trainer(2, job_id="other")
    found = RecordFinder([folder], job="j").find()

    assert [(0, True, os.getpid()), (1, False, None)] == sorted(
        (one.record.identity.rank, one.alive, one.host_pid) for one in found
    )
    assert [0, 1, 2] == ranks(RecordFinder([folder]).find())


def test_records_of_an_earlier_launch_are_not_of_this_one(folder: Path, trainer: Callable[..., Any]) -> None:
    """A job that is started again under the same id does not inherit the ranks that were dead by then; those that live,
    and those that died since it began, are its own.
    """
    trainer(0)
    trainer(1, GONE)

    assert [0] == ranks(RecordFinder([folder], job="j", began_unix=time.time() + 10).find())
    assert [0, 1] == ranks(RecordFinder([folder], job="j", began_unix=time.time() - 10).find())


def test_what_is_no_record_is_passed_over(folder: Path, trainer: Callable[..., Any]) -> None:
    """Garbage, links, pipes and other names take nothing from the records beside them."""
    good = trainer(0)
    (folder / owner.file_name(HERE)).write_bytes(b"garbage" * 100)
    (folder / owner.file_name(HERE)).symlink_to(good.path)
    os.mkfifo(folder / owner.file_name(HERE))
    (folder / owner.file_name(HERE)).mkdir()
    (folder / "notes.txt").touch()
    finder = RecordFinder([folder, folder / "none"])

    assert [0] == ranks(finder.find()) == ranks(finder.find())


def test_a_record_that_is_not_ready_is_tried_again(folder: Path, trainer: Callable[..., Any]) -> None:
    """A file that was only just made is looked at again; a record that vanishes is let go."""
    finder = RecordFinder([folder])
    early = folder / owner.file_name(HERE)
    early.touch(mode=0o600)
    assert [] == finder.find()
    late = trainer(0)
    shutil.copyfile(late.path, early)
    late.path.unlink()
    assert [0] == ranks(finder.find())
    early.unlink()

    assert [] == finder.find()


def test_a_copy_is_made_of_the_open_file(folder: Path, trainer: Callable[..., Any], tmp_path: Path) -> None:
    """The bytes of a record can be had when its path leads nowhere any more, as after the end of a container."""
    one = trainer(3)
    one.step(forward=0.1)
    finder = RecordFinder([folder])
    (found,) = finder.find()
    wanted = one.path.read_bytes()
    folder.rename(tmp_path / "elsewhere")

    assert wanted == finder.content(found)
    finder.close()
    with pytest.raises(RecordError):
        finder.content(found)


def test_several_share_what_was_found(folder: Path, trainer: Callable[..., Any]) -> None:
    """Who can do with what was read a moment ago causes no look of its own; who wants the present gets it."""
    now = 100.0
    one = trainer(0)
    finder = RecordFinder([folder], clock=lambda: now)

    def steps(max_age_seconds: float) -> int:
        return finder.find(max_age_seconds)[0].record.state.steps

    assert 0 == steps(2.0)
    one.step(forward=0.1)
    now += 1
    assert [0, 1, 1] == [steps(2.0), steps(0.0), steps(2.0)]
    one.step(forward=0.1)
    now += 2

    assert 2 == steps(2.0)


def test_all_collectors_share_one_finder(context: Any, folder: Path) -> None:
    """Where a context has a finder, nobody makes another."""
    shared = replace(context, records=RecordFinder([folder]))

    assert shared.records is records_of(shared) is records_of(shared)
    assert records_of(context) is not records_of(context)


def test_a_record_out_of_sight(folder: Path, trainer: Callable[..., Any], tmp_path: Path) -> None:
    """A record is told and can be copied after its folder went with a container; one that was removed is let go."""
    kept, removed = trainer(0, GONE), trainer(1, GONE)
    finder = RecordFinder([folder], job="j")
    assert [0, 1] == ranks(finder.find())
    removed.path.unlink()
    content = kept.path.read_bytes()
    folder.rename(tmp_path / "elsewhere")
    (found,) = finder.find()

    assert (0, content) == (found.record.identity.rank, finder.content(found))


def test_steps_are_read_once_and_kept(folder: Path, trainer: Callable[..., Any]) -> None:
    """The steps of earlier reads stay; a step that was extended since is as long as it became."""
    one = trainer(0)
    finder = RecordFinder([folder])
    for _ in range(3):
        one.step(forward=0.1)
    assert [1, 2, 3] == [step.number for step in finder.find()[0].record.steps]
    one.step(forward=0.1)
    one.spend("forward", 0.2)
    one.timeline.optimizer_ended(2, one.now)
    (found,) = finder.find()

    assert [1, 2, 3, 4] == [step.number for step in found.record.steps]
    assert 0.3 == pytest.approx(found.record.steps[-1].seconds)


def test_the_newest_incarnation_counts(folder: Path, trainer: Callable[..., Any]) -> None:
    """Of a rank that was started again the living one counts, else the last one."""
    now = time.time()
    trainer(0, GONE, attached_unix=now + 5, started_unix=now + 5)
    trainer(0, attached_unix=now, started_unix=now)
    trainer(1, GONE, attached_unix=now, started_unix=now)
    trainer(1, GONE._replace(start_ticks=1), attached_unix=now + 5, started_unix=now + 5)
    best = newest(RecordFinder([folder]).find())

    assert best["j", 0].alive
    assert 1 == best["j", 1].owner.start_ticks


def test_the_dead_are_forgotten_where_no_job_was_asked_for(folder: Path, trainer: Callable[..., Any]) -> None:
    """A daemon tells of ended ranks for a quarter of an hour; whoever asks for a job is told of all of it."""
    trainer(0, GONE)
    later = time.time() + DEAD_KEPT_SECONDS + 1

    assert [0] == ranks(RecordFinder([folder]).find())
    assert [] == RecordFinder([folder], unix=lambda: later).find()
    assert [0] == ranks(RecordFinder([folder], job="j", unix=lambda: later).find())


def test_a_folder_that_anybody_can_write_to(folder: Path, trainer: Callable[..., Any]) -> None:
    """Files in a folder that others can write to may be anybody's: they are not read."""
    trainer(0)
    folder.chmod(0o777)

    assert [] == RecordFinder([folder]).find()


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
def test_a_file_of_another_user(folder: Path, trainer: Callable[..., Any]) -> None:
    """A file that belongs to another than its folder's owner is not read; a folder of one user is, by root."""
    one, two = trainer(0), trainer(1)
    os.chown(one.path, 12345, 12345)
    assert [1] == ranks(RecordFinder([folder]).find())
    os.chown(two.path, 12345, 12345)
    os.chown(folder, 12345, 12345)

    assert [0, 1] == ranks(RecordFinder([folder]).find())


def test_why_shims_are_off(folder: Path) -> None:
    """Notes of shims that are off are read as far as they go; the name alone tells the reason; ended ones are gone."""
    (folder / owner.file_name(HERE, "off", "no_space")).write_text('{"job_id": "j", "rank": 3, "reason": "full"}')
    (folder / owner.file_name(HERE, "off", "file_size_limit")).touch()
    (folder / owner.file_name(HERE, "off", "internal")).write_bytes(b"\xff" * 5000)
    (folder / owner.file_name(HERE, "off", "no_file")).write_text('{"rank": -1, "reason": "\\u001b[31m", "job_id": 7}')
    (folder / owner.file_name(GONE, "off", "no_space")).touch()
    notes = {note.code: note for note in RecordFinder([folder]).off_notes()}

    assert {"no_space", "file_size_limit", "internal", "no_file"} == set(notes)
    assert ("j", 3, "full", os.getpid()) == (
        notes["no_space"].job_id,
        notes["no_space"].rank,
        notes["no_space"].reason,
        notes["no_space"].host_pid,
    )
    assert (None, "file size limit") == (notes["file_size_limit"].rank, notes["file_size_limit"].reason)
    assert ("", None, "no file") == (notes["no_file"].job_id, notes["no_file"].rank, notes["no_file"].reason)


TRAIN = """
import sys, torch
optimizer = torch.optim.SGD()
for _ in range(3):
    optimizer.step()
print("trained", flush=True)
sys.stdin.readline()
"""


@pytest.mark.live
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="namespaces need root and unshare")
@pytest.mark.parametrize("trap", [False, True], ids=["container", "trap"])
def test_a_rank_in_a_container(folder: Path, trainer: Callable[..., Any], trap: bool) -> None:
    """A rank with a /dev/shm and process ids of its own is seen from the host, with the process id it has here; a link
    that the container puts in the place of a folder leads nowhere.
    """
    job = f"container-{os.getpid()}"
    links = f"ln -s {folder} /dev/shm/aidiag-7 &&" if trap else ""
    if trap:
        trainer(1, job_id=job)
        assert [1] == ranks(RecordFinder([folder], job=job).find())
    shell = f'mount -t tmpfs none /dev/shm && mount -t proc proc /proc && {links} exec "$@"'
    child = subprocess.Popen(
        ["unshare", "-m", "-p", "-f", "--propagation", "private", "sh", "-c", shell, "sh", sys.executable, "-c", TRAIN],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'trainer_shim' / 'inject'}:{ROOT / 'tests' / 'trainer_shim' / 'programs' / 'fake'}",
            "AIDIAG_JOB_ID": job,
        },
    )  # fmt: skip
    finder = RecordFinder(job=job)
    try:
        assert child.stdout is not None and "trained\n" == child.stdout.readline()
        (found,) = finder.find()
        assert 0 == found.record.identity.rank
        assert 3 == found.record.state.steps
        assert (True, 1) == (found.alive, found.record.identity.pid)
        assert found.host_pid is not None and found.host_pid != 1
        assert found.path.startswith("/proc/") and "/root/dev/shm/aidiag-0/" in found.path
        assert HERE.pid_namespace != found.owner.pid_namespace
        arguments = Path(f"/proc/{found.host_pid}/cmdline").read_bytes()
        assert TRAIN.encode() in arguments
    finally:
        child.communicate("\n")
    assert [] == [one for one in finder.find() if one.alive is not False]
    finder.close()
