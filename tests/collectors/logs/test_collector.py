import os
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aidiag.collectors import COLLECTORS, registry
from aidiag.collectors.collector import Collector, Context
from aidiag.collectors.logs import LogsCollector, collector, following
from aidiag.collectors.logs.compiled import Catalogue
from aidiag.collectors.observation import Absent, Event, Observation, Sample
from aidiag.collectors.run_files import RunFile, encode_run, name_of
from aidiag.collectors.subject import rank

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
COMM = "node-a:10:11 [0] NCCL INFO comm 0x2 rank 5 nranks 8 cudaDev 0 busId 1000 - Init COMPLETE"


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        """Seconds."""
        return self.now

    def unix(self) -> float:
        """Seconds since 1970."""
        return self.now + 1e9


class Node:
    """Only the name of a node."""

    name = "node-a"


class Job:
    """A job folder with one host, and a collector on it."""

    def __init__(self, folder: Path, catalogue: Catalogue, *logs: Path) -> None:
        self.folder = folder / "aidiag-j"
        self.host = self.folder / "node-a"
        self.host.mkdir(parents=True)
        self.clock = Clock()
        run = RunFile("1", "j", "node-a", ("torchrun",), "/w", self.clock.unix() - 1, None)
        (self.host / name_of("1")).write_bytes(encode_run(run))
        self.context = Context(
            Node(),  # type: ignore[arg-type]
            clock=self.clock,
            job="j",
            job_folder=self.folder,
            host_folder=self.host,
            log_paths=logs,
        )
        self.catalogue = catalogue
        self.collector = LogsCollector(self.context, catalogue)

    def turn(self, seconds: float = 1.0) -> list[Observation]:
        """Let time pass, and collect."""
        self.clock.now += seconds
        return list(self.collector.collect())

    def events(self, seconds: float = 1.0) -> list[Event]:
        """The events of a turn."""
        return [one for one in self.turn(seconds) if isinstance(one, Event)]


@pytest.fixture
def job(tmp_path: Path, catalogue: Catalogue) -> Job:
    """A job without logs."""
    return Job(tmp_path, catalogue)


def append(path: Path, text: str) -> None:
    """Write more."""
    with path.open("a") as file:
        file.write(text)


def samples(observations: Iterable[Observation], signal: str) -> dict[str, float | str]:
    """The values of a signal by source."""
    return {
        dict(one.labels)["source"]: one.value
        for one in observations
        if isinstance(one, Sample) and one.signal == signal
    }


def test_the_collector_is_in_the_table() -> None:
    """Its signals and event kinds are in the registry, and it follows the protocol."""
    assert COLLECTORS["logs"] is LogsCollector
    assert {
        "cuda_out_of_memory",
        "nccl_error",
        "collective_timeout",
        "peer_connection_closed",
    } <= registry().events.keys()
    assert {"log_lines_total", "log_bytes_total", "log_dropped_bytes_total"} <= registry().signals.keys()
    made: type[Collector] = LogsCollector
    assert made.name == "logs"


def test_without_logs_there_is_nothing_to_say(job: Job) -> None:
    """No files, no samples, no events, no catalogue."""
    job.collector = LogsCollector(job.context)
    assert job.turn() == []
    assert job.collector._catalogue is None


def test_captures_and_nccl_files_of_the_host_folder_are_followed(job: Job) -> None:
    """As they appear; the source is relative to the job folder, and the host that of the folder."""
    (job.host / "stdout-77.log").write_text(f"hello\n[rank1]: {OOM}\n")
    (job.host / "sidecar.log").write_text(OOM + "\n")
    (event,) = job.events()
    assert event.subject == rank(1, host="node-a", job="j")
    assert event.time == job.clock.now
    assert event.place is not None
    assert (event.place.source, event.place.line) == ("node-a/stdout-77.log", 2)
    append(job.host / "nccl.node-a.10.log", COMM + "\nBootstrap : no socket interface found\n")
    assert job.events() == []
    completed, nothing = job.events(5.0)
    assert (completed.kind, nothing.kind) == ("nccl_init_completed", "nccl_no_interface")
    assert nothing.subject == rank(5, host="node-a", job="j")
    seen = job.turn()
    assert samples(seen, "log_lines_total") == {"capture": 2, "nccl": 2}
    assert samples(seen, "log_bytes_total")["capture"] == len(f"hello\n[rank1]: {OOM}\n")
    assert samples(seen, "log_dropped_bytes_total") == {"capture": 0, "nccl": 0}


def test_nccls_own_file_and_the_output_share_what_they_know(job: Job) -> None:
    """The file of NCCL says which process is which rank, the output of the job names the process."""
    (job.host / "nccl.node-a.10.log").write_text(COMM + "\n")
    job.events()
    append(job.host / "stdout-77.log", "node-a:10:15 [0] NCCL WARN Cuda failure 'x'\n")
    (event,) = job.events(5.0)
    assert event.subject == rank(5, host="node-a", job="j")


@pytest.mark.parametrize("name", ["stdout-77.log", "stderr-77.log", "stdout-77.3.log"])
def test_a_capture_belongs_to_the_rank_of_its_run(job: Job, name: str) -> None:
    """Where `aidiag run` started the rank itself, its file says which one; a launcher's has none."""
    run = RunFile("77", "j", "node-a", ("train",), "/w", job.clock.unix(), None, rank=3, captures={"stdout": name})
    (job.host / name_of("77")).write_bytes(encode_run(run))
    (job.host / name).write_text(f"{OOM}\n[rank1]: {OOM}\n")
    assert [event.subject for event in job.events()] == [rank(3, host="node-a", job="j")] * 2
    (job.host / name_of("78")).write_bytes(encode_run(replace(run, key="78", rank=None)))
    (job.host / "stdout-78.log").write_text(OOM + "\n")
    assert [event.subject for event in job.events(5.0)] == [None]


@pytest.mark.parametrize("content", ["", "{", '{"rank": "x"}', "[1]"])
def test_a_broken_run_file_is_no_trouble(job: Job, content: str) -> None:
    """Then the rank is not known."""
    (job.host / "run-77.json").write_text(content)
    (job.host / "stdout-77.log").write_text(OOM + "\n")
    assert [event.subject for event in job.events()] == [None]


def test_files_that_the_user_names_are_followed(tmp_path: Path, catalogue: Catalogue) -> None:
    """By path or by pattern; one that is not there yet is absent, with the reason, until it comes."""
    (tmp_path / "logs").mkdir()
    job = Job(tmp_path, catalogue, tmp_path / "train.log", tmp_path / "logs" / "nccl-*.txt")
    (absent,) = [one for one in job.turn() if isinstance(one, Absent)]
    assert (absent.signal, absent.reason) == ("log_bytes_total", f"{tmp_path}/train.log: there is no such file")
    (tmp_path / "train.log").write_text(f"[rank1]: {OOM}\n")
    (tmp_path / "logs" / "nccl-1.txt").write_text(f"[rank2]: {OOM}\n")
    events = [one for one in job.turn(5.0) if isinstance(one, Event)]
    assert [event.subject for event in events] == [rank(1, host="", job="j"), rank(2, host="", job="j")]
    assert [event.place.source for event in events if event.place] == [
        str(tmp_path / "train.log"),
        str(tmp_path / "logs" / "nccl-1.txt"),
    ]
    assert not [one for one in job.turn() if isinstance(one, Absent)]


def test_a_link_in_the_host_folder_is_not_read(job: Job, tmp_path: Path) -> None:
    """A job cannot make the sidecar read another file for it."""
    (tmp_path / "secret").write_text(OOM + "\n")
    (job.host / "stdout-1.log").symlink_to(tmp_path / "secret")
    os.mkfifo(job.host / "stdout-2.log")
    (job.host / "stdout-3.log").write_text(f"[rank1]: {OOM}\n")
    assert [event.subject for event in job.events()] == [rank(1, host="node-a", job="j")]


def test_an_unfinished_line_is_told_after_five_seconds_and_not_again(job: Job) -> None:
    """The last words of a process often lack the newline; if it comes later, nothing is told twice."""
    log = job.host / "stdout-1.log"
    log.write_text(f"one\n[rank1]: {OOM}")
    assert job.events() == []
    assert job.events(3.0) == []
    (event,) = job.events(3.0)
    assert event.place is not None
    assert (event.place.line, event.place.text) == (2, f"[rank1]: {OOM}")
    assert job.events(6.0) == []
    append(log, f" and more {OOM}")
    assert job.events() == []
    (second,) = job.events(6.0)
    assert (second.kind, second.place and second.place.line) == ("cuda_out_of_memory", 2)
    append(log, "\nnext\n")
    assert job.events() == []


def test_a_number_that_may_go_on_waits_for_its_end(job: Job) -> None:
    """`exit code = 1` may become `= 139`: only text that cannot change is told of an unfinished line."""
    log = job.host / "stdout-1.log"
    log.write_text("exits with return code = 1")
    job.events()
    assert job.events(6.0) == []
    append(log, "39\n")
    (event,) = job.events()
    assert event.fields["exit_code"] == 139


def test_a_traceback_may_come_in_pieces(job: Job) -> None:
    """Blocks of several lines go on from turn to turn."""
    log = job.host / "stdout-1.log"
    for piece in ("Traceback (most recent call last):\n", '  File "/w/a.py", li', "ne 7, in f\n    x\n"):
        append(log, piece)
        assert job.events() == []
    append(log, "KeyError: 'a'\n")
    (event,) = job.events()
    assert (event.fields["type"], event.fields["file"], event.fields["line"]) == ("KeyError", "/w/a.py", 7)


def test_a_storm_of_one_message_is_bounded(job: Job) -> None:
    """The first ones are told, the rest is counted; another message still comes through."""
    (job.host / "stdout-1.log").write_text(
        f"{OOM}\n" * 5000 + "RuntimeError: CUDA error: device-side assert triggered\n"
    )
    seen = job.turn()
    kinds = [one.kind for one in seen if isinstance(one, Event)]
    assert kinds.count("cuda_out_of_memory") == following.EVENTS_PER_MESSAGE
    assert kinds.count("cuda_error") == 1
    assert samples(seen, "log_dropped_events_total") == {"capture": 5000 - following.EVENTS_PER_MESSAGE}


def test_a_file_that_is_begun_near_its_end_has_no_line_numbers(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was skipped was not counted: then evidence says its text and no number rather than a wrong one."""
    monkeypatch.setattr("aidiag.collectors.logs.tail.LAG_BYTES", 10_000)
    monkeypatch.setattr("aidiag.collectors.logs.tail.TURN_BYTES", 1_000)
    (job.host / "stdout-1.log").write_text("x" * 60 + "\n" + "step\n" * 4000 + f"[rank1]: {OOM}\n")
    seen = job.turn()
    (event,) = [one for one in seen if isinstance(one, Event)]
    assert event.place is not None
    assert (event.place.line, event.place.text) == (None, f"[rank1]: {OOM}")
    dropped = samples(seen, "log_dropped_bytes_total")["capture"]
    assert isinstance(dropped, float)
    assert 19_000 < dropped < 21_000


def test_the_number_of_files_is_bounded(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that makes ten thousand logs does not use up our descriptors; it is said that some are left out."""
    monkeypatch.setattr(collector, "FILES_LIMIT", 3)
    for number in range(5):
        (job.host / f"nccl.node-a.{number}.log").write_text("x\n")
    (absent,) = [one for one in job.turn() if isinstance(one, Absent)]
    assert absent.reason == "2 logs are not followed, since 3 are already"


def stamp(unix: float) -> str:
    """A time as logs write it."""
    return datetime.fromtimestamp(unix, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_segments_that_come_and_go(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """A capture makes a new file every few MiB and deletes the old ones: no number of them makes us blind, and the
    totals go on.
    """
    monkeypatch.setattr(collector, "FILES_LIMIT", 12)
    told: list[Event] = []
    for number in range(2, 40):
        (job.host / f"stdout-77.{number}.log").write_text(f"[rank{number}]: {OOM}\n")
        (job.host / f"stdout-77.{number - 2}.log").unlink(missing_ok=True)
        told += job.events(20.0)
    assert [event.subject and event.subject.name for event in told] == [str(number) for number in range(2, 40)]
    assert samples(job.turn(), "log_lines_total") == {"capture": 38}
    assert len(job.collector._followed) < 12


def test_an_old_log_says_nothing_of_the_present(tmp_path: Path, catalogue: Catalogue) -> None:
    """A log that was there before us is begun at its end where lines bear no time; what is added to it is told."""
    old = tmp_path / "train.log"
    old.write_text(f"[rank1]: {OOM}\n")
    job = Job(tmp_path, catalogue, old)
    assert job.events() == []
    append(old, f"[rank2]: {OOM}\n")
    (event,) = job.events()
    assert event.subject == rank(2, host="", job="j")


def test_old_lines_are_told_with_their_own_time(tmp_path: Path, catalogue: Catalogue) -> None:
    """So that whoever asks for the present can tell them apart."""
    old = tmp_path / "train.log"
    job = Job(tmp_path, catalogue, old)
    unix = job.clock.unix()
    old.write_text("".join(f"{stamp(unix - age)} [rank1]: {OOM}\n" for age in (7200, 5)))
    assert [event.time for event in job.events()] == [job.clock.now - 1 - 7200, job.clock.now - 1 - 5]


def test_a_new_sidecar_does_not_tell_what_the_last_one_told(tmp_path: Path, catalogue: Catalogue) -> None:
    """A sidecar that comes hours after the run began cannot know when lines without a time were printed."""
    job = Job(tmp_path, catalogue)
    (job.host / "stdout-1.log").write_text(f"[rank1]: {OOM}\n")
    job.clock.now += 3600
    job.collector = LogsCollector(job.context, job.catalogue)
    assert job.events() == []
    append(job.host / "stdout-1.log", f"[rank2]: {OOM}\n")
    assert [event.subject for event in job.events()] == [rank(2, host="node-a", job="j")]


def test_who_failed_first_is_known_across_files(job: Job) -> None:
    """Of two captures read in one turn, the rank whose file was last written to earlier failed first; a stated time
    is better still.
    """
    unix = job.clock.unix()
    first, second, third = (job.host / f"stdout-{number}.log" for number in (3, 2, 1))
    first.write_text(f"[rank0]: {OOM}\n")
    second.write_text("x\n" * 1000 + f"[rank1]: {OOM}\n")
    third.write_text(f"{stamp(unix)} [rank2]: {OOM}\n")
    os.utime(first, (unix + 1.25, unix + 1.25))
    os.utime(second, (unix + 1.75, unix + 1.75))
    events = sorted(job.events(2.0), key=lambda event: event.time or 0.0)
    assert [event.place.source for event in events if event.place] == [
        "node-a/stdout-1.log", "node-a/stdout-3.log", "node-a/stdout-2.log",
    ]  # fmt: skip
    assert [event.time for event in events] == [job.clock.now - 2, job.clock.now - 0.75, job.clock.now - 0.25]


def test_every_event_carries_declared_fields_only(job: Job) -> None:
    """Over all examples of the catalogue: kinds and fields are those of the registry."""
    texts = [line for one in job.catalogue.messages.values() for line in one.examples]
    (job.host / "stdout-1.log").write_text("\n".join(texts) + "\n")
    events = job.events()
    assert len(events) > 100
    for event in events:
        assert set(event.fields) <= set(registry().events[event.kind].fields), event.kind
        assert event.fields["message"] in job.catalogue.messages
