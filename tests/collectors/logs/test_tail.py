import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from aidiag.collectors.collector import Context
from aidiag.collectors.logs import LogsCollector, tail
from aidiag.collectors.logs.catalogue import read_messages
from aidiag.collectors.logs.compiled import Catalogue
from aidiag.collectors.logs.tail import Chunk, OpenFile, Tail
from aidiag.collectors.observation import Event, Sample

CATALOGUE = Catalogue(
    read_messages(
        """
- id: marked
  component: test
  kind: loader_timeout
  severity: error
  pattern: marked line <seconds:int> ends here
  meaning: A line of the test.
  remedy: None.
  example: marked line 7 ends here
  near_miss: marked line
""",
        "test.yaml",
    )
)


class FakeClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        """Seconds."""
        return self.now

    def unix(self) -> float:
        """Seconds since 1970."""
        return self.now + 1e9


class FakeNode:
    """Only the name of a node."""

    name = "node-a"


def collector_of(path: Path, clock: FakeClock) -> LogsCollector:
    """A collector that follows one path."""
    return LogsCollector(Context(FakeNode(), clock=clock, log_paths=(path,)), CATALOGUE)  # type: ignore[arg-type]


class Following(RuleBasedStateMachine):
    """A log is written, rotated, truncated, deleted and made again, while a collector follows it."""

    @initialize()
    def start(self) -> None:
        """An empty folder."""
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "job.log"
        self.clock = FakeClock()
        self.collector = collector_of(self.path, self.clock)
        self.seen: dict[int, int | None] = {}
        self.written: dict[int, int] = {}
        self.maybe: set[int] = set()
        self.next = 0
        self.rotations = 0
        self.current = Log(self.path)
        self.old: Log | None = None

    def look(self, seconds: float) -> None:
        """Let time pass, and collect."""
        self.clock.now += seconds
        for event in self.collector.collect():
            if isinstance(event, Event):
                number = event.fields["seconds"]
                assert isinstance(number, int)
                assert number not in self.seen, f"line {number} came twice"
                assert event.place is not None
                self.seen[number] = event.place.line

    def write(self, log: "Log", lines: int, noise: int, cut: int) -> None:
        """Append lines, the last one perhaps in part."""
        data, log.owed, log.unfinished = log.owed, b"", []
        for turn in range(lines):
            if noise:
                data += b"x" * noise + b"\r\n"
                log.line += 1
            self.written[self.next] = log.line
            last = (
                b"2001-09-09T02:03:20Z marked line %d ends here\n" % self.next
            )  # a new file without times is old news
            data += last
            log.line += 1
            if turn == lines - 1 and cut:
                log.unfinished = [self.next]
                keep = len(data) - min(cut, len(last) - 1)
                data, log.owed = data[:keep], data[keep:]
            self.next += 1
        with open(log.path, "ab") as file:
            file.write(data)

    @rule(
        lines=st.integers(0, 4), noise=st.sampled_from([0, 3, 300, 20_000]), cut=st.sampled_from([0, 0, 1, 5, 12, 20])
    )
    def append(self, lines: int, noise: int, cut: int) -> None:
        """The job prints."""
        self.write(self.current, lines, noise, cut)

    @precondition(lambda self: self.old is not None)
    @rule(lines=st.integers(0, 2))
    def append_to_rotated(self, lines: int) -> None:
        """A writer that still has the rotated file open prints there."""
        assert self.old is not None
        self.write(self.old, lines, 0, 0)

    @rule(seconds=st.sampled_from([1.0, 1.0, 6.0]))
    def poll(self, seconds: float) -> None:
        """A turn of the collector, after a second or after a stall."""
        self.look(seconds)

    @precondition(lambda self: self.path.exists())
    @rule(unread=st.integers(0, 2))
    def rotate(self, unread: int) -> None:
        """logrotate renames the file, with lines in it that were not read yet; the next line makes a new one."""
        self.look(1.0)
        self.write(self.current, unread, 0, 0)
        self.rotations += 1
        rotated = self.path.with_name(f"job.log.{self.rotations}")
        self.path.rename(rotated)
        self.old, self.current = self.current, Log(self.path)
        self.old.path = rotated

    @precondition(lambda self: self.path.exists())
    @rule(lines=st.integers(0, 6))
    def truncate(self, lines: int) -> None:
        """logrotate copies the file and truncates it (copytruncate); what was read is gone from it."""
        self.look(1.0)
        self.maybe.update(self.current.unfinished)
        os.truncate(self.path, 0)
        self.current = Log(self.path)
        self.write(self.current, lines, 0, 0)

    @precondition(lambda self: self.path.exists())
    @rule(lines=st.integers(0, 3), unread=st.integers(0, 2))
    def delete(self, lines: int, unread: int) -> None:
        """The file is deleted with lines that were not read, and perhaps made again at once."""
        self.look(1.0)
        self.write(self.current, unread, 0, 0)
        self.maybe.update(self.current.unfinished)
        self.path.unlink()
        self.current = Log(self.path)
        if lines:
            self.write(self.current, lines, 0, 0)

    def teardown(self) -> None:
        """Every line was seen once, with its number."""
        if not hasattr(self, "collector"):
            return
        for log in (self.current, self.old):
            if log is not None and log.path.exists():
                self.write(log, 0, 0, 0)
        self.look(6.0)
        self.look(6.0)
        self.collector.close()
        self.folder.cleanup()
        assert set(self.seen) | self.maybe >= set(self.written)
        assert set(self.seen) <= set(self.written)
        for number, line in self.seen.items():
            assert line == self.written[number], number


class Log:
    """What the test knows of a file: the number of its next line, what it still owes of one, and which that is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.line = 1
        self.owed = b""
        self.unfinished: list[int] = []


TestFollowing = Following.TestCase
TestFollowing.settings = settings(max_examples=120, stateful_step_count=25, deadline=None)


def poll(following: Tail, now: float = 0.0, budget: int = tail.TURN_BYTES) -> list[Chunk]:
    """The chunks of a turn."""
    return [chunk for _, chunk in following.poll(now, budget)]


def test_a_turn_is_bounded_and_the_next_one_goes_on(tmp_path: Path) -> None:
    """No more than the budget is read at once."""
    path = tmp_path / "log"
    path.write_bytes(b"x" * 1000)
    following = Tail(path)
    assert [(chunk.offset, len(chunk.data)) for chunk in poll(following, budget=600)] == [(0, 600)]
    assert [(chunk.offset, len(chunk.data)) for chunk in poll(following, budget=600)] == [(600, 400)]
    assert poll(following) == []
    following.close()


def test_far_behind_it_skips_and_says_how_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A huge file is begun near its end, and a storm is not followed without bound."""
    monkeypatch.setattr(tail, "LAG_BYTES", 1000)
    monkeypatch.setattr(tail, "TURN_BYTES", 100)
    path = tmp_path / "log"
    path.write_bytes(b"x" * 5000)
    following = Tail(path)
    (first,) = poll(following)
    assert (first.skipped_bytes, first.offset, len(first.data)) == (4900, 4900, 100)
    with path.open("ab") as file:
        file.write(b"y" * 3000)
    (second,) = poll(following)
    assert (second.skipped_bytes, second.offset, len(second.data)) == (2900, 7900, 100)
    following.close()


def test_a_terabyte_of_nothing_costs_nothing(tmp_path: Path) -> None:
    """Holes are stepped over: a sparse file of a terabyte is read in one turn."""
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    following = Tail(path)
    assert sum(len(chunk.data) for chunk in poll(following)) == 0
    with path.open("ab") as file:
        file.write(b"Killed\n")
    assert b"".join(chunk.data for chunk in poll(following)).lstrip(b"\0") == b"Killed\n"
    following.close()


def test_a_hole_is_part_of_the_line(tmp_path: Path) -> None:
    """A writer without O_APPEND goes on at its old offset after truncation: the line behind the hole keeps its number."""
    path, clock = tmp_path / "log", FakeClock()
    writer = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.write(writer, b"old line\n" * 200_000)
    collector = collector_of(path, clock)
    list(collector.collect())
    os.truncate(path, 0)
    os.write(writer, b"marked line 1 ends here\nmarked line 2 ends here\n")
    events = [one for one in collector.collect() if isinstance(one, Event)]
    assert [(event.fields["seconds"], event.place.line) for event in events if event.place] == [(1, 1), (2, 2)]
    text = path.read_text().splitlines()
    assert all(event.place.text in text[event.place.line - 1] for event in events if event.place and event.place.line)
    os.close(writer)
    collector.close()


def test_replacement_under_the_same_inode_is_noticed(tmp_path: Path) -> None:
    """When device, inode and size fit but the first bytes do not, the file is a new one."""
    path = tmp_path / "log"
    path.write_bytes(b"first file, " * 10)
    following = Tail(path)
    poll(following)
    path.write_bytes(b"second file, longer " * 10)
    (chunk,) = poll(following)
    assert (chunk.restarted, chunk.offset) == (True, 0)
    mark_of = OpenFile(path, os.open(path, os.O_RDONLY))
    mark = tail.Mark(str(path), *mark_of.key, b"first file".hex(), 5, 1)
    assert not mark_of.resume(mark)
    assert mark_of.resume(tail.Mark(str(path), *mark_of.key, b"second file".hex(), 5, 1))
    assert not mark_of.resume(tail.Mark(str(path), *mark_of.key, b"second file".hex(), 5000, 1))
    mark_of.close()
    following.close()


def test_files_that_begin_alike_are_kept_apart(tmp_path: Path) -> None:
    """Eight ranks write the same first lines: the fingerprint is no key."""
    paths = [tmp_path / f"rank{n}.log" for n in range(3)]
    for path in paths:
        path.write_bytes(b"the same banner\n" * 40)
    tails = [Tail(path) for path in paths]
    assert [len(poll(one)[0].data) for one in tails] == [640] * 3
    with paths[1].open("ab") as file:
        file.write(b"only here\n")
    assert [[chunk.data for chunk in poll(one)] for one in tails] == [[], [b"only here\n"], []]
    for one in tails:
        one.close()


def test_a_rotated_file_is_let_go_after_a_minute(tmp_path: Path) -> None:
    """Its descriptor is not kept for ever."""
    path = tmp_path / "log"
    path.write_bytes(b"one\n")
    following = Tail(path)
    poll(following, 0)
    path.rename(tmp_path / "log.1")
    path.write_bytes(b"two\n")
    assert [chunk.data for chunk in poll(following, 1)] == [b"two\n"]
    assert len(following.files) == 2
    with (tmp_path / "log.1").open("ab") as file:
        file.write(b"late\n")
    assert [chunk.data for chunk in poll(following, 30)] == [b"late\n"]
    poll(following, 62)
    assert len(following.files) == 1
    following.close()


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_file_is_refused_until_it_is_one(tmp_path: Path, kind: str) -> None:
    """A link or pipe in the place of a log is not read, and does not block."""
    path = tmp_path / "log"
    match kind:
        case "link":
            (tmp_path / "target").write_text("secret\n")
            path.symlink_to(tmp_path / "target")
        case "pipe":
            os.mkfifo(path)
        case _:
            path.mkdir()
    following = Tail(path)
    assert poll(following) == []
    assert following.refused.startswith("is a ")
    path.rmdir() if kind == "folder" else path.unlink()
    poll(following)
    assert following.refused == "there is no such file"
    path.write_text("now\n")
    assert [chunk.data for chunk in poll(following)] == [b"now\n"]
    assert following.refused == ""
    following.close()


def test_a_file_that_fails_is_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ESTALE of a network file system closes the file; under its name it is found again, and not read twice."""
    path, clock = tmp_path / "log", FakeClock()
    path.write_text("2001-09-09T02:03:20Z marked line 1 ends here\n")
    collector = collector_of(path, clock)
    assert sum(isinstance(one, Event) for one in collector.collect()) == 1
    real = os.fstat

    def stale(descriptor: int) -> os.stat_result:
        raise OSError(116, "Stale file handle")

    monkeypatch.setattr(os, "fstat", stale)
    clock.now += 1
    assert not any(isinstance(one, Event) for one in collector.collect())
    monkeypatch.setattr(os, "fstat", real)
    with path.open("a") as file:
        file.write("marked line 2 ends here\n")
    clock.now += 1
    events = [one for one in collector.collect() if isinstance(one, Event)]
    assert [(event.fields["seconds"], event.place.line) for event in events if event.place] == [(2, 2)]
    collector.close()


def test_samples_count_what_was_read(tmp_path: Path) -> None:
    """Lines and bytes, and what was dropped of a line that is too long."""
    path, clock = tmp_path / "log", FakeClock()
    path.write_bytes(b"one\n" + b"x" * 100_000 + b"\nmarked line 1 ends here\n")
    collector = collector_of(path, clock)
    values = {one.signal: one.value for one in collector.collect() if isinstance(one, Sample)}
    assert values["log_lines_total"] == 3
    assert values["log_bytes_total"] == path.stat().st_size
    assert values["log_dropped_bytes_total"] == 100_001 - (16 << 10)
    collector.close()
