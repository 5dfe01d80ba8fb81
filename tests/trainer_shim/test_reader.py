"""The reader: what a writer wrote comes back, and no other bytes do any harm."""

from __future__ import annotations

import contextlib
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aidiag.trainer_shim import identity, layout, owner
from aidiag.trainer_shim.record import Record, RecordError, RecordReader, read_record
from aidiag.trainer_shim.timeline import Timeline
from aidiag.trainer_shim.writer import RecordWriter

IDENTITY = {
    **identity.identity({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "3", "AIDIAG_JOB_ID": "j"}, "/w"),
    **identity.process_identity(owner.this_process()),
}


class Clock:
    """Nanoseconds that the test sets."""

    def __init__(self) -> None:
        self.now = 16 * 10**8

    def __call__(self) -> int:
        """A little later than before."""
        self.now += 1600
        return self.now


def new_file(path: Path) -> int:
    """A file of the right size."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    os.posix_fallocate(fd, 0, layout.FILE_BYTES)
    return fd


def written(path: Path, steps: int = 5) -> Timeline:
    """A record with some steps, a loader and a note."""
    fd = new_file(path)
    writer = RecordWriter(fd)
    os.close(fd)
    writer.identity(IDENTITY)
    clock = Clock()
    timeline = Timeline(writer, clock)
    writer.publish()
    timeline.start(clock())
    for step in range(1, steps + 1):
        timeline.enter(layout.DATA_WAIT, clock())
        clock.now += 2_000_000
        timeline.enter(layout.FORWARD, clock())
        clock.now += 1_000_000
        timeline.leave(clock())
        timeline.batches += 1
        timeline.tell_loss(1 / step)
        timeline.optimizer_ended(1, clock())
    counts = layout.LOADER_COUNTS.pack(5_000_000_000, 0, 7, 1, 3, 2)
    facts = layout.LOADER_FACTS.pack(b"Images", b"ImageFolder", 2, 2, layout.ROLE_TRAINING)
    timeline.loaders = 1
    writer.loader(0, counts + facts + layout.PID.pack(11) + layout.PID.pack(12))
    writer.note("exception", {"type": "ValueError", "message": "x" * 1000})
    writer.values({"lr": 0.1})
    timeline.write_state(clock())
    return timeline


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the record lies; the reader asks for no tmpfs."""
    return tmp_path / "a.record"


def test_a_whole_record(path: Path) -> None:
    """Identity, state, steps, loaders, notes and values come back as they were written."""
    written(path)
    record = read_record(str(path), owner_uid=os.geteuid())

    assert ("j", 3, 8, 3) == (
        record.identity.job_id,
        record.identity.rank,
        record.identity.world_size,
        record.identity.local_rank,
    )
    assert (5, 5, "training", "other") == (
        record.state.steps,
        record.state.batches,
        record.state.stage,
        record.state.phase,
    )
    assert [1, 2, 3, 4, 5] == [step.number for step in record.steps]
    assert record.steps[0].first and not record.steps[1].first
    assert 0.2 == record.steps[4].loss == record.state.loss
    assert record.state.loss_scale is None
    assert ("Images", "ImageFolder", "training", 2, (11, 12), 2) == (
        record.loaders[0].name,
        record.loaders[0].dataset,
        record.loaders[0].role,
        record.loaders[0].workers,
        record.loaders[0].worker_pids,
        record.loaders[0].queue_batches,
    )
    assert "ValueError" == record.notes[0].fields["type"]
    assert {"lr": 0.1} == record.values


def test_phases_add_up(path: Path) -> None:
    """The phases of a step add up to its wall time, and those of all steps to the time in steps."""
    written(path)
    record = read_record(str(path))

    for step in record.steps:
        assert step.seconds == pytest.approx(sum(step.phases.values()))
        assert 0.003 == pytest.approx(step.seconds, rel=0.01)
    assert record.state.step_seconds == pytest.approx(sum(record.state.phase_seconds.values()))
    assert "backward" not in record.state.phase_seconds


def test_a_phase_under_way_is_seen(path: Path) -> None:
    """A stamp that is newer than the last state says in which phase the trainer is, and since when."""
    timeline = written(path)
    began = timeline.clock()
    timeline.enter(layout.DATA_WAIT, began)
    state = read_record(str(path)).state

    assert ("data_wait", began / 1e9, began / 1e9) == (state.phase, state.phase_since, state.monotonic)


def test_a_flush_keeps_the_beginning_of_the_phase(path: Path) -> None:
    """A state written in the midst of a phase does not make the phase look younger."""
    timeline = written(path)
    began = timeline.clock()
    timeline.enter(layout.FORWARD, began)
    timeline.write_state(timeline.clock() + 10**9)
    state = read_record(str(path)).state

    assert began / 1e9 == state.phase_since
    assert state.monotonic - state.phase_since > 0.9


def test_only_new_steps_are_read(path: Path) -> None:
    """A reader that knows a step is given the later ones."""
    timeline = written(path)
    with RecordReader(str(path)) as reader:
        assert [4, 5] == [step.number for step in reader.read(steps_after=3).steps]
        timeline.optimizer_ended(1, timeline.clock())
        assert [6] == [step.number for step in reader.read(steps_after=5).steps]
        assert () == reader.read(steps_after=6).steps


def test_the_ring_of_steps_goes_round(path: Path) -> None:
    """Of many steps the last ones are there, in order, without the one whose predecessor is gone."""
    written(path, steps=1300)
    numbers = [step.number for step in read_record(str(path)).steps]

    assert list(range(1300 - 510, 1301)) == numbers


def test_steps_behind_the_last_state(path: Path) -> None:
    """Where steps are too short for a state each, the step items bring the last state up to the last step."""
    timeline = written(path)
    for step in range(6, 10):
        timeline.enter(layout.FORWARD, timeline.clock())
        timeline.clock.now += 50_000  # type: ignore[attr-defined]
        timeline.batches += 1
        timeline.tell_loss(1 / step)
        if step == 8:
            timeline.end_step(timeline.clock(), skipped=True)
        else:
            timeline.optimizer_ended(1, timeline.clock())
    record = read_record(str(path))

    assert (8, 1, 9) == (record.state.steps, record.state.steps_skipped, record.state.batches)
    assert (1 / 9, "other") == (record.state.loss, record.state.phase)
    assert record.state.last_step_end == record.steps[-1].end == record.state.monotonic
    assert record.state.last_step_seconds == pytest.approx(record.steps[-1].seconds)
    assert record.state.phase_seconds == record.steps[-1].spent_seconds
    assert list(range(1, 10)) == [step.number for step in record.steps]
    with RecordReader(str(path)) as reader:
        again = reader.read(steps_after=8)
    assert ([9], record.state) == ([step.number for step in again.steps], again.state)


def test_a_second_optimizer_extends_its_step(path: Path) -> None:
    """A step that went on after it was written is written anew, and is one step."""
    timeline = written(path, steps=1)
    timeline.optimizer_ended(2, timeline.clock() + 5_000_000)
    record = read_record(str(path))

    assert 1 == record.state.steps
    assert [1] == [step.number for step in record.steps]
    assert record.steps[0].seconds > 0.0079


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda path: path.write_bytes(b""), "not_ready"),
        (lambda path: path.write_bytes(bytes(layout.FILE_BYTES)), "not_ready"),
        (lambda path: path.write_bytes(b"#!/bin/sh\n" * 100), "not_a_record"),
        (lambda path: path.write_bytes(bytes(5 << 20)), "not_a_record"),
        (lambda path: path.symlink_to("/etc/passwd"), "unreadable"),
        (lambda path: os.mkfifo(path), "refused"),
        (lambda path: path.mkdir(), "refused"),
        (lambda path: None, "unreadable"),
    ],
    ids=["empty", "zeros", "script", "large", "link", "fifo", "folder", "missing"],
)
def test_what_is_no_record(path: Path, make: Callable[[Path], object], code: str) -> None:
    """A file that is not a record is told from one that is not ready, and a link or a pipe is never followed."""
    make(path)
    with pytest.raises(RecordError) as caught:
        read_record(str(path))

    assert code == caught.value.code


def test_a_file_of_somebody_else_is_refused(path: Path) -> None:
    """Only the files of the expected owner are read, and none that has a second name."""
    written(path)
    with pytest.raises(RecordError, match="belongs to user"):
        read_record(str(path), owner_uid=os.geteuid() + 1)
    os.link(path, path.with_suffix(".other"))
    with pytest.raises(RecordError, match="one name"):
        read_record(str(path))


def changed_header(path: Path, offset: int, value: bytes) -> None:
    """Change bytes of the header and give it a right checksum, as a writer with ill intent would."""
    data = bytearray(path.read_bytes())
    data[offset : offset + len(value)] = value
    end = layout.HEADER.size + layout.TABLE_ROW.size * len(layout.SECTIONS)
    data[end : end + 4] = struct.pack("<I", layout.checksum(bytes(data[:end])))
    path.write_bytes(data)


def test_a_newer_minor_version_is_read(path: Path) -> None:
    """A minor version more changes nothing for what this reader knows."""
    written(path)
    changed_header(path, 14, struct.pack("<H", 7))

    assert (layout.MAJOR, 7) == read_record(str(path)).version


@pytest.mark.parametrize(("major", "code"), [(layout.MAJOR + 1, "newer_layout"), (0, "not_a_record")])
def test_another_major_version_is_refused(path: Path, major: int, code: str) -> None:
    """Another major version is said to be one, and not guessed at."""
    written(path)
    changed_header(path, 12, struct.pack("<H", major))
    with pytest.raises(RecordError) as caught:
        read_record(str(path))

    assert code == caught.value.code


def test_an_unknown_section_is_skipped(path: Path) -> None:
    """A section of a kind that a later version brings is passed over; one that is needed and missing is an error."""
    written(path)
    row = layout.HEADER.size + layout.TABLE_ROW.size * list(layout.SECTIONS).index(layout.VALUES)
    changed_header(path, row, struct.pack("<I", 99))
    with pytest.raises(RecordError, match=f"section {layout.VALUES} is missing"):
        read_record(str(path))


def test_a_longer_payload_is_read(path: Path) -> None:
    """A state to which a later version has added fields is read as far as it is known."""
    timeline = written(path)
    payload = layout.STATE_HEAD.pack(
        timeline.clock(), 0, 0, 77, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, layout.TRAINING, layout.OTHER, 0, 0.0, 0.0
    )
    payload += layout.MEMORY.pack(*timeline.memory) + layout.SPENT.pack(*timeline.spent) + b"future" * 5
    section = layout.SECTIONS[layout.STATE]
    timeline.writer._put(section, 800 % section.slots, 800, payload)

    assert 77 == read_record(str(path)).state.steps


@pytest.mark.parametrize(
    "change",
    [
        {"rank": 8},
        {"rank": -1},
        {"rank": 999999999, "world_size": 2**40},
        {"world_size": 0},
        {"world_size": (1 << 20) + 1},
        {"rank": True},
        {"rank": "3"},
        {"rank": 1e400},
        {"job_id": "../etc"},
        {"job_id": ""},
        {"pid": 0},
        {"started_unix": float("nan")},
        {"local_rank": 8},
    ],
    ids=str,
)
def test_an_identity_that_cannot_be_is_refused(path: Path, change: dict[str, object]) -> None:
    """A rank outside of its world, a path for a job id and the like are damage, not facts."""
    timeline = written(path)
    timeline.writer.identity({**IDENTITY, **change})
    timeline.write_state(timeline.clock())
    with pytest.raises(RecordError) as caught:
        read_record(str(path))

    assert "damaged" == caught.value.code


def test_texts_are_printable_and_short(path: Path) -> None:
    """Escape codes and endless names from a record do not reach whoever prints it."""
    timeline = written(path)
    timeline.writer.identity({**IDENTITY, "host": "a\x1b[31mb\u202e", "script": "x" * 5000})
    timeline.write_state(timeline.clock())
    told = read_record(str(path)).identity

    assert "a?[31mb?" == told.host
    assert 256 == len(told.script)


def test_deep_json_is_refused(path: Path) -> None:
    """Nesting that would break a parser is damage."""
    timeline = written(path)
    section = layout.SECTIONS[layout.IDENTITY]
    item = layout.frame(9, b'{"a":' * 2000 + b"1" + b"}" * 2000)
    data = bytearray(path.read_bytes())
    data[section.place(1) : section.place(1) + len(item)] = item
    path.write_bytes(data)
    del timeline
    with pytest.raises(RecordError, match=r"JSON|valid"):
        read_record(str(path))


def test_a_large_environment_gives_way(path: Path) -> None:
    """An identity that does not fit loses its environment and nothing else."""
    timeline = written(path)
    timeline.writer.identity({**IDENTITY, "env": {f"NCCL_{i}": "v" * 200 for i in range(100)}})
    timeline.write_state(timeline.clock())
    told = read_record(str(path)).identity

    assert (3, {}) == (told.rank, told.env)


def check(record: Record) -> None:
    """What holds for every record that a reader gives out."""
    assert 0 <= record.identity.rank < record.identity.world_size <= 1 << 20
    assert record.state.phase in layout.PHASES and record.state.stage in layout.STAGES
    assert all(len(loader.worker_pids) <= layout.WORKER_PIDS for loader in record.loaders)
    json.dumps([note.fields for note in record.notes], allow_nan=False)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A good record, to be spoilt."""
    path = tmp_path_factory.mktemp("template") / "a.record"
    written(path)
    return path.read_bytes()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_flipped_bytes_do_no_harm(template: bytes, path: Path, data: st.DataObject) -> None:
    """A record with changed bytes is read as far as it is whole, or is an error that says so."""
    spoilt = bytearray(template)
    for _ in range(data.draw(st.integers(1, 8))):
        place = data.draw(st.one_of(st.integers(0, 200), st.integers(0, len(spoilt) - 1)))
        spoilt[place] = data.draw(st.integers(0, 255))
    path.write_bytes(spoilt)
    with contextlib.suppress(RecordError):
        check(read_record(str(path)))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(*[st.integers(0, 2**32 - 1)] * 4), min_size=7, max_size=7))
def test_claimed_lengths_do_no_harm(template: bytes, path: Path, rows: list[tuple[int, int, int, int]]) -> None:
    """A header with a right checksum and sections that lie anywhere is an error, at no cost in memory."""
    path.write_bytes(template)
    kinds = list(layout.SECTIONS)
    table = b"".join(layout.TABLE_ROW.pack(kind, *row[1:]) for kind, row in zip(kinds, rows, strict=True))
    changed_header(path, layout.HEADER.size, table)
    with contextlib.suppress(RecordError):
        check(read_record(str(path)))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, layout.FILE_BYTES))
def test_a_cut_file_is_an_error(template: bytes, path: Path, length: int) -> None:
    """A file that lost its end is damaged, and one that lost all is not ready."""
    path.write_bytes(template[:length])
    if length == layout.FILE_BYTES:
        check(read_record(str(path)))
        return
    with pytest.raises(RecordError):
        read_record(str(path))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=3000))
def test_garbage_is_an_error(path: Path, data: bytes) -> None:
    """Any bytes at all are an error of the reader's own kind."""
    path.write_bytes(layout.MAGIC + data)
    with pytest.raises(RecordError):
        read_record(str(path))


def test_a_file_that_shrinks_under_the_reader(path: Path) -> None:
    """A job that truncates its record while it is open gets its reader an error, not a signal."""
    written(path)
    with RecordReader(str(path)) as reader:
        reader.read()
        os.truncate(path, 0)
        with pytest.raises(RecordError):
            reader.read()


def test_only_what_can_be_new_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at a rank that made one step since the last one checks a handful of items, not the whole ring of steps."""
    written(tmp_path / "r", steps=1200).writer.close()
    checked: list[int] = []
    unframe = layout.unframe

    def counted(item: bytes) -> object:
        checked.append(len(item))
        return unframe(item)

    monkeypatch.setattr(layout, "unframe", counted)
    with RecordReader(str(tmp_path / "r")) as reader:
        (step,) = reader.read(steps_after=1199).steps
    assert 1200 == step.number
    assert 3 >= checked.count(layout.SECTIONS[layout.STEP].item_bytes)
    assert {"data_wait", "forward"} <= step.phases.keys() <= step.spent_seconds.keys()
    assert 1 == checked.count(layout.SECTIONS[layout.VALUES].item_bytes)
