"""What sidecars of one job share: samples and events come over whole, broken and hostile files cost their host only."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aidiag.collectors.collector import Context
from aidiag.collectors.errors import UnavailableError
from aidiag.collectors.observation import Absent, Event, Observation, Place, Sample, labels
from aidiag.collectors.peers import PeersCollector, decode_state, encode_state
from aidiag.collectors.recorded import RecordedNode
from aidiag.collectors.subject import host, rank


class Clock:
    """A clock that stands still: monotonic 100, Unix 1,000,000 seconds (another machine: 5,000 and the same day)."""

    def __init__(self, monotonic: float = 100.0, unix: float = 1_000_000.0) -> None:
        self._monotonic, self._unix = monotonic, unix

    def monotonic(self) -> float:
        """Seconds."""
        return self._monotonic

    def unix(self) -> float:
        """Seconds."""
        return self._unix


PEER = rank(1, host="node-b", job="j")
STEP = Sample("steps_total", PEER, 7.0, 4_990.0)
WAIT = Sample("loader_wait_seconds_total", PEER, 1.5, 4_990.0, labels(loader="train"))
EXIT = Event("rank_exited", PEER, 4_995.0, {"exit_code": -9}, None, Place("node-b/stdout-1.log", 3, "killed"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A job folder with this host's part and that of node-b."""
    for name in ("node-a", "node-b"):
        (tmp_path / "job" / name).mkdir(parents=True)
    (tmp_path / "node").mkdir()
    (tmp_path / "node" / "node.json").write_text('{"hostname": "node-a"}')
    return tmp_path / "job"


def collect(folder: Path) -> list[Observation]:
    """What node-a sees of its peers."""
    context = Context(
        RecordedNode(folder.parent / "node"), Clock(), job="j", job_folder=folder, host_folder=folder / "node-a"
    )
    return list(PeersCollector(context).collect())


def share(folder: Path, *, job: str = "j", name: str = "node-b") -> bytes:
    """The state of node-b in its place."""
    text = encode_state(name, job, Clock(5_000.0), [STEP, WAIT], [EXIT], port=0, ended=False)
    (folder / "node-b" / "state.json").write_bytes(text)
    return text


def test_samples_and_events_come_over_at_this_hosts_time(folder: Path) -> None:
    """What happened ten seconds ago there happened ten seconds ago here, on the peer's own rank."""
    share(folder)
    seen = collect(folder)

    assert Sample("steps_total", PEER, 7.0, 90.0) in seen
    assert Sample("loader_wait_seconds_total", PEER, 1.5, 90.0, labels(loader="train")) in seen
    assert Sample("peer_state_age_seconds", host("node-b"), 0.0, 100.0) in seen
    (event,) = (one for one in seen if isinstance(one, Event))
    assert ("rank_exited", PEER, 95.0, -9) == (event.kind, event.subject, event.time, event.fields["exit_code"])
    assert Place("node-b/stdout-1.log", 3, "killed") == event.place


def test_events_are_told_once(folder: Path) -> None:
    """A state that stays tells its events at the first reading only."""
    share(folder)
    context = Context(
        RecordedNode(folder.parent / "node"), Clock(), job="j", job_folder=folder, host_folder=folder / "node-a"
    )
    collector = PeersCollector(context)

    counts = [sum(isinstance(one, Event) for one in collector.collect()) for _ in range(3)]

    assert [1, 0, 0] == counts


def test_another_job_is_none_of_ours(folder: Path) -> None:
    """A state of another job in the same folder is passed over."""
    share(folder, job="other")

    assert [] == collect(folder)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"[]", b'{"schema":"aidiag.state/v2"}', b"[" * 100_000])
def test_broken_state_is_absent_with_a_reason(folder: Path, text: bytes) -> None:
    """A broken file says so and costs that host only."""
    (folder / "node-b" / "state.json").write_bytes(text)
    seen = collect(folder)

    assert [("peer_state_age_seconds", host("node-b"))] == [
        (one.signal, one.subject) for one in seen if isinstance(one, Absent)
    ]
    assert 1 == len(seen)


def test_links_and_pipes_are_refused(folder: Path) -> None:
    """A state that is a link or a pipe is not opened."""
    state = folder / "node-b" / "state.json"
    state.symlink_to("/etc/passwd")
    assert isinstance(collect(folder)[0], Absent)
    state.unlink()
    os.mkfifo(state)
    assert isinstance(collect(folder)[0], Absent)


def test_peer_speaks_of_its_own_host_only(folder: Path) -> None:
    """Whatever host a state's samples were about, they land on the host that shared them."""
    share(folder, name="node-z")

    assert {"node-z"} == {one.subject.host for one in collect(folder) if isinstance(one, Sample)}


def test_no_folder_is_unavailable(folder: Path) -> None:
    """Without a shared folder there are no peers, and nothing is amiss."""
    context = Context(RecordedNode(folder.parent / "node"), Clock())

    with pytest.raises(UnavailableError, match="no job folder"):
        PeersCollector(context).collect()


def test_round_trip(folder: Path) -> None:
    """A state reads back as it was written."""
    state = decode_state(share(folder))

    assert ("node-b", "j", 2, 1) == (state.host, state.job, len(state.samples), len(state.events))
