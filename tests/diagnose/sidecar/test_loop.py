"""The sidecar's loop: observations in, verdict out, and nothing that fails around it ends it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path

import msgspec
import pytest

from aidiag.collectors import registry
from aidiag.collectors.observation import Event, Observation, Sample
from aidiag.collectors.peers import decode_state
from aidiag.collectors.subject import host, job, rank
from aidiag.diagnose.job.folder import HostFolder
from aidiag.diagnose.job.ledger import Change
from aidiag.diagnose.report.model import Unknown
from aidiag.diagnose.sidecar import loop
from aidiag.diagnose.sidecar.folder_output import FolderOutput
from aidiag.diagnose.sidecar.loop import Sidecar
from aidiag.diagnose.sidecar.snapshot import Snapshot
from aidiag.rules import window
from aidiag.rules.causes import Links, arrange
from aidiag.rules.engine import Tracker
from aidiag.rules.finding import Finding
from aidiag.rules.loader import load_rules
from aidiag.rules.tracker import REFRESH_SECONDS
from aidiag.rules.waivers import Waiver

RULE = """\
id: too_hot
cause: planted
title: Too hot
severity: warning
scope: host
let: {busy: host_memory_available_bytes}
when: busy < 1GiB
summary: "{who} has {busy:bytes} left"
why: because
remedy: [{do: wait}]
tests:
  - {name: fires, series: {'host_memory_available_bytes{host="a"}': 1x60}, at: 30s, expect: {hosts: [a]}}
  - {name: quiet, series: {'host_memory_available_bytes{host="a"}': 9999999999x60}, at: 30s, expect: quiet}
  - {name: undecided, absent: [{signal: host_memory_available_bytes, host: a, reason: hidden}], at: 30s, expect: undecided}
"""


class Clock:
    """A clock that the test turns."""

    now = 1_000.0
    step = 0.0

    def monotonic(self) -> float:
        """Seconds."""
        return self.now

    def unix(self) -> float:
        """Seconds since 1970: a million more, and what the wall clock was set by."""
        return self.now + 1_000_000.0 + self.step


class Source:
    """Hands on what the test put in."""

    def __init__(self) -> None:
        self.waiting: list[Observation] = []

    def poll(self) -> Sequence[Observation]:
        """Everything once."""
        taken, self.waiting = self.waiting, []
        return taken

    def gaps(self) -> Sequence[Unknown]:
        """One gap."""
        return (Unknown("gpu", "no answer"),)


class Broken:
    """An output that always fails."""

    def write(self, snapshot: Snapshot, changes: Sequence[Change], events: Iterable[Event]) -> None:
        """Fail."""
        raise OSError("disk full")


def make(tmp_path: Path, *, waivers: Sequence[Waiver] = ()) -> tuple[Sidecar, Source, Clock, HostFolder]:
    """A sidecar with one rule, a broken output and a folder."""
    tmp_path.mkdir(exist_ok=True)
    (tmp_path / "too_hot.yaml").write_text(RULE)
    book = load_rules([tmp_path / "too_hot.yaml"], registry(), built_in=False)
    assert not book.errors, book.errors
    clock, source = Clock(), Source()
    folder = HostFolder(tmp_path / "job" / "a")
    folder.path.mkdir(parents=True, exist_ok=True)
    sidecar = Sidecar(
        host="a",
        clock=clock,
        registry=registry(),
        rules=book.rules,
        source=source,
        tracker=Tracker(1_000_000.0, "en", "j"),
        outputs=(Broken(), FolderOutput(folder, "j", clock)),
        waivers=waivers,
    )
    return sidecar, source, clock, folder


def memory(value: float, time: float, name: str = "a") -> Sample:
    """A reading of free memory."""
    return Sample("host_memory_available_bytes", host(name), value, time)


def test_finding_comes_and_goes(tmp_path: Path) -> None:
    """A fault is raised, stays in the ledger after it went, and both are written down with evidence that is true."""
    sidecar, source, clock, folder = make(tmp_path)
    source.waiting = [memory(1e6, clock.now)]
    first = sidecar.tick()
    clock.now += 5.0
    source.waiting = [memory(1e12, clock.now)]
    second = sidecar.tick()

    assert [["too_hot"], []] == [[finding.rule for finding in shot.findings] for shot in (first, second)]
    assert ["too_hot"] == [finding.rule for finding in sidecar.every_finding()]
    lines = [msgspec.json.decode(line) for line in folder.findings.read_bytes().splitlines()]
    assert ["raised", "cleared"] == [line["event"] for line in lines]
    (item, *_) = lines[0]["finding"]["evidence"]
    assert "a/evidence.txt" == item["source"]
    assert item["text"] in folder.evidence.read_text().splitlines()[item["line"] - 1]


@pytest.mark.parametrize("linked", ["findings.ndjson", "evidence.txt"])
def test_nothing_is_written_through_a_link(tmp_path: Path, linked: str) -> None:
    """A link that somebody put where the sidecar appends is not followed; the finding keeps its measurement, and what
    is not linked is written.
    """
    (tmp_path / "job" / "a").mkdir(parents=True)
    (tmp_path / "precious").write_text("precious\n")
    (tmp_path / "job" / "a" / linked).symlink_to(tmp_path / "precious")
    sidecar, source, clock, folder = make(tmp_path)
    source.waiting = [memory(1e6, clock.now)]
    sidecar.tick()

    assert "precious\n" == (tmp_path / "precious").read_text()
    if linked == "evidence.txt":
        line = msgspec.json.decode(folder.findings.read_bytes().splitlines()[0])
        assert None is line["finding"]["evidence"][0]["line"]
    else:
        assert "host_memory_available_bytes" in folder.evidence.read_text()


def test_evidence_is_not_numbered_wrongly_behind_a_file_of_unknown_length(tmp_path: Path) -> None:
    """Where evidence.txt is too large to be counted nothing is added, and evidence points at no line of it."""
    (tmp_path / "job" / "a").mkdir(parents=True)
    (tmp_path / "job" / "a" / "evidence.txt").write_bytes(b"x\n" * (1 << 20))
    sidecar, source, clock, folder = make(tmp_path)
    source.waiting = [memory(1e6, clock.now)]
    sidecar.tick()

    line = msgspec.json.decode(folder.findings.read_bytes().splitlines()[0])
    assert None is line["finding"]["evidence"][0]["line"]
    assert 2 << 20 == folder.evidence.stat().st_size


def test_stale_reading_is_not_fresh(tmp_path: Path) -> None:
    """A reading that nobody renews leaves the metrics, and its rule cannot be judged any more."""
    sidecar, source, clock, _ = make(tmp_path)
    source.waiting = [memory(1e12, clock.now)]
    fresh = sidecar.tick()
    clock.now += 300.0
    stale = sidecar.tick()

    assert 1 == len(fresh.samples)
    assert () == stale.samples
    assert {"too_hot"} == stale.undecided


def test_old_events_do_not_count(tmp_path: Path) -> None:
    """What the kernel's log still holds from long before the start is passed over."""
    sidecar, source, clock, _ = make(tmp_path)
    someone = rank(0, host="a", job="j")
    source.waiting = [Event("rank_exited", someone, clock.now - 900.0), Event("rank_exited", someone, clock.now)]
    sidecar.tick()

    assert 1 == len(sidecar.events)


def test_other_hosts_readings_are_not_exported(tmp_path: Path) -> None:
    """What a peer shared is judged, and not served as this host's."""
    sidecar, source, clock, _ = make(tmp_path)
    source.waiting = [memory(1e6, clock.now, "b")]
    shot = sidecar.tick()

    assert () == shot.samples
    assert [("b",)] == [finding.culprit.hosts for finding in shot.findings if finding.culprit]


def test_waived_finding_is_shown_and_does_not_alarm(tmp_path: Path) -> None:
    """A waiver turns a finding into information with its reason, until its last day."""
    for until, severity in ((date(2000, 1, 1), "info"), (date(1970, 1, 2), "warning")):
        sidecar, source, clock, _ = make(tmp_path / severity, waivers=[Waiver("too_hot", "a", until, "known")])
        source.waiting = [memory(1e6, clock.now)]
        (finding,) = sidecar.tick().findings

        assert severity == finding.severity
        assert ("known" in finding.title) is (severity == "info")


def test_gaps_and_health_are_told(tmp_path: Path) -> None:
    """What cannot be seen is in the snapshot, and the loop says whether it turns."""
    sidecar, _, clock, _ = make(tmp_path)
    shot = sidecar.tick()

    assert (Unknown("gpu", "no answer"),) == shot.unknown
    assert sidecar.alive()
    clock.now += 120.0
    assert not sidecar.alive()


def test_nothing_is_arranged_while_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Roots and consequences are worked out when findings come, change or go, and not in every tick."""
    sidecar, source, clock, _ = make(tmp_path)
    times: list[float] = []

    def counted(findings: Iterable[Finding], links: Mapping[str, Links]) -> tuple[list[Finding], list[Finding]]:
        times.append(clock.now)
        return arrange(findings, links)

    monkeypatch.setattr(loop, "arrange", counted)
    for value in (1e6, 1e6, 1e6, 1e12, 1e12):
        source.waiting = [memory(value, clock.now)]
        sidecar.tick()
        clock.now += 5.0

    assert [1_000.0, 1_015.0] == times


def test_what_is_too_much_to_judge_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readings for which there is no room are counted and told as not seen; of a signal that nobody knows nothing is lost."""
    monkeypatch.setattr(window, "LARGEST_SERIES", 3)
    sidecar, source, clock, _ = make(tmp_path)
    source.waiting = [memory(1e12, clock.now, name) for name in "abcde"]
    source.waiting.append(Sample("of_a_newer_version", host("b"), 1.0, clock.now))
    shot = sidecar.tick()

    assert 2 == shot.left_out
    (told,) = [gap for gap in shot.unknown if gap.what == "observations"]
    assert "2 of host_memory_available_bytes were never judged" in told.reason
    assert "newer" not in told.reason


def test_a_wall_clock_that_is_set(tmp_path: Path) -> None:
    """After a step of the wall clock the times of findings are in the new time; its drift moves nothing."""
    sidecar, source, clock, _ = make(tmp_path)
    for _second in range(3):
        clock.now += 1
        source.waiting = [memory(1e6, clock.now)]
        sidecar.tick()
    since = []
    for clock.step in (0.05, 3600.0):
        clock.now += REFRESH_SECONDS
        source.waiting = [memory(1e6, clock.now)]
        since += [finding.since for finding in sidecar.tick().findings]

    assert [1_001_001.0, 1_004_601.0] == since


def test_what_is_told_late_does_not_replace_what_is_new(tmp_path: Path) -> None:
    """Two hosts tell the world size of their job: the newer word stands, in whatever order they come."""
    sidecar, source, clock, _ = make(tmp_path)
    source.waiting = [Sample("job_world_size", job("j"), 4.0, 999.0), Sample("job_world_size", job("j"), 2.0, 998.0)]
    assert 4 == sidecar.tick().world_size()
    clock.now += 1
    source.waiting = [Sample("job_world_size", job("j"), 8.0, 999.5)]

    assert 8 == sidecar.tick().world_size()


def test_counts_of_a_host_are_its_own(tmp_path: Path) -> None:
    """How many ranks of the job a host has is not shared with the others, who count their own."""
    sidecar, source, clock, folder = make(tmp_path)
    signals = ("job_world_size", "job_ranks_seen", "job_ranks_attached")
    source.waiting = [Sample(signal, job("j"), 2.0, clock.now) for signal in signals]
    snapshot = sidecar.tick()

    assert {*signals} == {sample.signal for sample in snapshot.samples}
    assert {"job_world_size"} == {s.signal for s in decode_state(folder.state.read_bytes()).samples}
