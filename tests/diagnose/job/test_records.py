"""Copies of records in the job folder, and what they tell of ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from aidiag.collectors.collector import Context, SystemClock
from aidiag.collectors.comm_split import CommSplit
from aidiag.collectors.live import LiveNode
from aidiag.collectors.observation import Sample
from aidiag.collectors.rank_samples import rank_samples
from aidiag.collectors.records import RecordFinder, newest, records_of
from aidiag.collectors.subject import rank
from aidiag.diagnose.job.folder import JobFolder
from aidiag.diagnose.job.gather import gather
from aidiag.diagnose.job.records import copied_rows, copy_records
from aidiag.diagnose.report.ranks import rank_rows, record_row
from aidiag.trainer_shim.reader import read_record

Train = Callable[..., Path]


@pytest.fixture
def context(shim_folder: Path) -> Iterator[Context]:
    """What a job's sidecar and its collectors share."""
    context = Context(LiveNode(name="a"), SystemClock(), job="j", record_folders=(shim_folder,))
    finder = records_of(context)
    yield replace(context, records=finder)
    finder.close()


def found(context: Context) -> int:
    """How many records the collectors have found by now."""
    return len(records_of(context).find())


def test_records_that_went_with_their_container_are_kept(context: Context, train: Train, tmp_path: Path) -> None:
    """A record whose folder is gone by the end of the job is copied whole; one that was never seen is not."""
    path = train(1, forward=0.5)
    told = read_record(str(path))
    assert 1 == found(context)
    path.rename(tmp_path / "out of sight")  # nobody has removed it, but its path leads nowhere
    path.parent.rmdir()

    assert 1 == copy_records(context, tmp_path / "records")
    (copy,) = (tmp_path / "records").iterdir()
    assert "rank-1-4100001.record" == copy.name
    assert told == read_record(str(copy))


def test_of_a_rank_that_was_started_again_the_newest_record_is_kept(
    context: Context, train: Train, tmp_path: Path
) -> None:
    """In a new container the same process id comes again: its later record takes the place of the earlier one."""
    first = train(1, attached_unix=1000.0, steps=2, forward=0.5)
    assert 1 == found(context)
    first.unlink()
    train(1, attached_unix=2000.0, steps=5, forward=0.5)

    assert 1 == copy_records(context, tmp_path / "records")
    assert [5] == [row.steps for row in copied_rows(tmp_path / "records")]


def test_copies_go_through_no_link(context: Context, train: Train, tmp_path: Path) -> None:
    """A link in the place of the folder of copies is not followed, nor is one that stands for a copy."""
    path = train(1, forward=0.5)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "records").symlink_to(tmp_path / "elsewhere")
    assert 0 == copy_records(context, tmp_path / "records")
    assert [] == list((tmp_path / "elsewhere").iterdir())

    (tmp_path / "elsewhere" / "rank-1-1.record").symlink_to(path)
    assert [] == copied_rows(tmp_path / "elsewhere")


@pytest.mark.parametrize("phases", [{"forward": 0.5}, {"forward": 0.5, "comm": 0.25}])
def test_a_record_and_its_readings_tell_the_same(train: Train, shim_folder: Path, phases: dict[str, float]) -> None:
    """A rank's row is the same whether it is made of its record or of what the collector read in it, but for the
    process id, which is no reading; skipped steps count in the mean.
    """
    train(1, steps=5, skipped=1, **phases)
    newest_found = newest(RecordFinder([shim_folder]).find())
    (one,) = newest_found.values()
    split = CommSplit()
    split.update(newest_found)
    subject = rank(1, host=one.record.identity.host, job="j")
    samples = [s for s in rank_samples(one, subject, 1.0, split) if isinstance(s, Sample) and s.signal != "rank_up"]

    (live,) = rank_rows({subject: {(s.signal, s.labels): s for s in samples if s.signal != "rank_state_code"}})
    recorded = record_row(one.record)

    assert ("training", 4100001) == (recorded.state, recorded.pid)
    fields = ("rank", "host", "steps", "last_seen")
    assert [getattr(recorded, name) for name in fields] == [getattr(live, name) for name in fields]
    assert 4 == recorded.steps
    assert sum(phases.values()) == pytest.approx(recorded.step_seconds) == pytest.approx(live.step_seconds)
    own = pytest.approx(0.5) if "comm" in phases else None  # what was not measured is not zero
    assert own == recorded.own_seconds
    assert own == live.own_seconds


def test_copies_tell_of_the_ranks_of_a_host_without_a_report(train: Train, context: Context, tmp_path: Path) -> None:
    """Where a sidecar died after it had copied the records, the ranks' rows are in the merged report."""
    (tmp_path / "job" / "a").mkdir(parents=True)
    (tmp_path / "job" / "a" / "sidecar.json").write_text("{}")
    train(1, forward=0.5)
    copy_records(context, tmp_path / "job" / "a" / "records")

    assert [(1, 2, "training")] == [
        (row.rank, row.steps, row.state) for row in gather(JobFolder(tmp_path / "job"), {}).ranks
    ]
