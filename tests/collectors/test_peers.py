"""What sidecars of one job share: samples and events come over whole, broken and hostile files cost their host only."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from aidiag.collectors.collector import Context
from aidiag.collectors.errors import UnavailableError
from aidiag.collectors.observation import Absent, Event, Observation, Place, Sample, labels
from aidiag.collectors.peers import PeersCollector, decode_state, encode_state
from aidiag.collectors.recorded import RecordedNode
from aidiag.collectors.subject import host, rank


class Clock:
    """A clock that the test turns: monotonic 100, Unix 1,000,000 seconds (another machine: 5,000 and the same day)."""

    def __init__(self, monotonic: float = 100.0, unix: float = 1_000_000.0) -> None:
        self._monotonic, self._unix = monotonic, unix

    def turn(self, seconds: float) -> None:
        """Let time go by."""
        self._monotonic, self._unix = self._monotonic + seconds, self._unix + seconds

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


def watch(folder: Path, clock: Clock | None = None) -> PeersCollector:
    """The collector of node-a."""
    clock = clock or Clock()
    node = RecordedNode(folder.parent / "node")
    return PeersCollector(Context(node, clock, job="j", job_folder=folder, host_folder=folder / "node-a"))


def collect(folder: Path) -> list[Observation]:
    """What node-a sees of its peers."""
    return list(watch(folder).collect())


def share(
    folder: Path,
    *,
    job: str = "j",
    name: str = "node-b",
    clock: Clock | None = None,
    samples: Sequence[Sample] = (STEP, WAIT),
    events: Sequence[Event] = (EXIT,),
) -> bytes:
    """The state of node-b in its place."""
    text = encode_state(name, job, clock or Clock(5_000.0), samples, events, port=0, ended=False)
    (folder / "node-b" / "state.json").write_bytes(text)
    return text


def age_of(seen: Iterable[Observation]) -> float:
    """How old node-b's state is said to be."""
    (age,) = (one.value for one in seen if isinstance(one, Sample) and one.signal == "peer_state_age_seconds")
    assert isinstance(age, float)
    return age


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
    collector = watch(folder)

    counts = [sum(isinstance(one, Event) for one in collector.collect()) for _ in range(3)]

    assert [1, 0, 0] == counts


def test_shared_again_an_event_is_still_the_same(folder: Path) -> None:
    """The Unix time of an event whose source states none shifts a little with each sharing: it is told once all the
    same, and one that is new beside it is told.
    """
    collector = watch(folder)
    counts = []
    again = replace(EXIT, time=4_996.0)
    for tick, events in enumerate(([EXIT], [EXIT], [EXIT, again])):
        share(folder, clock=Clock(5_000.0 + tick, 1_000_000.001 + 1.01 * tick), events=events)
        counts.append(sum(isinstance(one, Event) for one in collector.collect()))

    assert [1, 0, 1] == counts


def test_host_with_many_events_is_heard_to_the_end(folder: Path) -> None:
    """However many events a host has told, the next one is told too, and none twice."""
    collector = watch(folder)
    counts = []
    for start in range(0, 12_000, 500):
        events = [replace(EXIT, time=float(number)) for number in range(max(0, start - 100), start + 500)]
        share(folder, clock=Clock(5_000.0 + start, 1_000_000.0 + start), events=events)
        counts.append(sum(isinstance(one, Event) for one in collector.collect()))

    assert {500} == set(counts)


def test_state_that_has_not_changed_says_only_its_age(folder: Path) -> None:
    """What has been taken once is not handed on again, and when it changes it is."""
    share(folder)
    clock = Clock()
    collector = watch(folder, clock)
    counts = []
    for change in (False, False, True):
        if change:
            share(folder, clock=Clock(5_001.0, 1_000_001.0))
        counts.append(sum(isinstance(one, Sample) for one in collector.collect()))
        clock.turn(1.0)

    assert [4, 2, 4] == counts


def test_reading_that_is_no_number_costs_only_itself(folder: Path) -> None:
    """A loss that is NaN or infinite does not cut a host off: it is left out, and all else comes over."""
    bad = [replace(STEP, signal="loss", value=value) for value in (float("nan"), float("inf"), float("-inf"))]
    share(folder, samples=[*bad, STEP])

    assert [Sample("steps_total", PEER, 7.0, 90.0)] == [
        one for one in collect(folder) if isinstance(one, Sample) and one.subject == PEER
    ]


def test_broken_entries_cost_only_themselves(folder: Path) -> None:
    """Samples and events that are none are passed over; the others of the state are taken."""
    facts = msgspec.json.decode(share(folder))
    good = facts["samples"][0]
    facts["samples"] = [[*good[:3], None, *good[4:]], "x", [], None, 7, good]
    facts["events"] = [{}, "x", None, facts["events"][0]]
    (folder / "node-b" / "state.json").write_bytes(msgspec.json.encode(facts))
    seen = collect(folder)

    assert ["steps_total"] == [one.signal for one in seen if isinstance(one, Sample) and one.subject == PEER]
    assert 1 == sum(isinstance(one, Event) for one in seen)
    assert not any(isinstance(one, Absent) for one in seen)


@pytest.mark.parametrize("skew", [3_600.0, 20.0, -20.0, -3_600.0])
def test_clocks_that_do_not_agree(folder: Path, skew: float) -> None:
    """A peer whose clock is off is not stale while it works and its readings are placed in this host's time; when it
    falls silent it grows old by this host's clock.
    """
    here, there = Clock(), Clock(5_000.0, 1_000_000.0 + skew)
    collector = watch(folder, here)
    seen: list[Observation] = []
    for _ in range(4):
        share(folder, clock=there, samples=[replace(STEP, time=there.monotonic() - 10.0)])
        seen = list(collector.collect())
        here.turn(2.0)
        there.turn(2.0)
    (step,) = (one for one in seen if isinstance(one, Sample) and one.subject == PEER)

    assert 0.0 == age_of(seen)
    assert 106.0 - 10.0 == pytest.approx(step.time)
    here.turn(28.0)
    assert 30.0 == pytest.approx(age_of(collector.collect()))


def test_old_state_is_old_at_the_first_look(folder: Path) -> None:
    """A state that a sidecar left an hour ago is an hour old for who comes now."""
    share(folder, clock=Clock(5_000.0, 1_000_000.0 - 3_600.0))

    assert 3_600.0 == age_of(collect(folder))


def test_step_of_this_hosts_clock_makes_nobody_stale(folder: Path) -> None:
    """When this host's time of day jumps, the peers do not grow old by it."""
    share(folder)
    clock = Clock()
    collector = watch(folder, clock)
    list(collector.collect())
    clock.turn(1.0)
    clock._unix += 500.0

    assert 1.0 == age_of(collector.collect())


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
