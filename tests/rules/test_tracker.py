"""From judgements to findings: for, keep_for, merge, ids, times."""

from __future__ import annotations

from typing import Any

import pytest

from aidiag.collectors.observation import Event, Place
from aidiag.collectors.subject import Subject, gpu, host, rank
from aidiag.rules.finding import Finding
from aidiag.rules.judgement import Judgement, State
from aidiag.rules.model import RemedyStep, Rule
from aidiag.rules.tracker import REFRESH_SECONDS, Tracker

R0, R1, R2 = (rank(number, host="a", job="j") for number in range(3))


def rule(**changes: Any) -> Rule:
    """A rule that waits 5 s and keeps on for 10 s."""
    usual = {
        "id": "late", "cause": "c", "title": {"en": "Late", "zh": "迟到"}, "severity": "warning", "scope": "rank",
        "summary": {"en": "{who} is late by {delay:seconds}"}, "why": {"en": "why"},
        "remedy": (RemedyStep({"en": "look at {rank}"}, "look {job}"), RemedyStep({"en": "wait"})),
        "for_seconds": 5.0, "keep_for_seconds": 10.0, "culprit": "rank",
    }  # fmt: skip
    return Rule(**{**usual, **changes})


def say(state: State, subject: Subject | None = R0, of: Rule | None = None, **more: Any) -> Judgement:
    """A judgement."""
    filled = {"job": "j", "values": {"delay": 3.0}, "steps": (0,)} if state == "firing" else {}
    return Judgement(of or rule(), subject, state, **{**filled, **more})


def course(states: str, *, of: Rule | None = None, tracker: Tracker | None = None) -> str:
    """What becomes of a condition second by second: T true, f false, ? undecided; and whether there is a finding."""
    words: dict[str, State] = {"T": "firing", "f": "quiet", "?": "undecided"}
    tracker = tracker or Tracker()
    found = ""
    for now, letter in enumerate(states):
        judgements = [say(words[letter], of=of)] if letter in words else []
        found += "X" if tracker.update(judgements, float(now)) else "."
    return found


@pytest.mark.parametrize(
    ("states", "found"),
    [
        ("TTTTTTTTTT", ".....XXXXX"),  # must hold for 5 s
        ("TTTfTTTTTTT", ".........XX"),  # a false moment begins anew
        ("TTT?TTTTTT", ".....XXXXX"),  # an undecided one does not
        ("TTT??????????????T", ".................."),  # but not for longer than keep_for
        ("TTTTTTffffffffffff", ".....XXXXXXXXXX..."),  # stays for 10 s after the last true one
        ("TTTTTTffffTfffffffffff", ".....XXXXXXXXXXXXXXX.."),  # which may come again
        ("TTTTTT????????????", ".....XXXXXXXXXX..."),  # undecided is not healthy at once
        ("TTTTTT            ", ".....XXXXXXXXXX..."),  # nor is a subject that is gone
        ("??????????", ".........."),
        ("ffffffffff", ".........."),
    ],
)
def test_course(states: str, found: str) -> None:
    """A condition must hold for `for`, and a finding lasts for `keep_for`."""
    assert found == course(states)


def test_without_for_it_speaks_at_once() -> None:
    """A rule without `for` and `keep_for` follows its condition."""
    assert ".XX.X" == course("fTTfT", of=rule(for_seconds=0.0, keep_for_seconds=0.0))


def one(judgement: Judgement, tracker: Tracker | None = None, now: float = 100.0) -> Finding:
    """The finding of one judgement that need not hold."""
    [finding] = (tracker or Tracker()).update([judgement], now)
    return finding


AT_ONCE = {"for_seconds": 0.0}


def test_a_finding_says_everything() -> None:
    """Texts are filled in, the remedy holds the steps that apply, and times are Unix seconds."""
    tracker = Tracker(unix_offset=1_000_000.0)
    tracker.update([say("firing")], 100.0)
    [finding] = tracker.update([say("firing")], 106.0)

    assert ("late/j/rank-0", "c", "late", "warning") == (finding.id, finding.cause, finding.rule, finding.severity)
    assert "rank 0 on a is late by 3 s" == finding.summary
    assert [("look at 0", "look j")] == [(step.do, step.command) for step in finding.remedy]
    assert (1_000_100.0, 1_000_106.0) == (finding.since, finding.found_at)
    assert finding.culprit is not None
    assert ((0,), ("a",)) == (finding.culprit.ranks, finding.culprit.hosts)
    assert ((), None) == (finding.explains, finding.explained_by)


def test_texts_follow_the_language() -> None:
    """A language that a text has is used, else English."""
    finding = one(say("firing", of=rule(**AT_ONCE)), Tracker(language="zh"))

    assert ("迟到", "why") == (finding.title, finding.why)


def test_merging_tells_all_subjects_in_one_finding() -> None:
    """With `merge` there is one finding; the subject that leads words it, and one that joins changes it, not its id."""
    merged = rule(**AT_ONCE, merge="job", lead="delay")
    tracker = Tracker()
    [first] = tracker.update([say("firing", R1, merged)], 0.0)
    second = [say("firing", R1, merged), say("firing", R2, merged, values={"delay": 9.0}), say("quiet", R0, merged)]
    [both] = tracker.update(second, 1.0)

    assert ("rank 1 on a is late by 3 s", "ranks 1-2 on a is late by 9 s") == (first.summary, both.summary)
    assert first.id == both.id == "late/j"
    assert both.culprit is not None
    assert (1, 2) == both.culprit.ranks


def test_merging_by_host() -> None:
    """With `merge: host` there is one finding a host."""
    merged = rule(**AT_ONCE, merge="host")
    away = rank(7, host="b", job="j")
    findings = Tracker().update([say("firing", subject, merged) for subject in (R0, R1, away)], 0.0)

    assert {"late/j/a", "late/j/b"} == {finding.id for finding in findings}


@pytest.mark.parametrize(
    ("subject", "binding", "name"),
    [
        (R0, None, "late/j/rank-0"),
        (R0, "train", "late/j/rank-0/train"),
        (rank(0, host="elsewhere", job="j"), None, "late/j/rank-0"),
        (gpu(3, host="a"), None, "late/j/a/gpu-gpu3"),
        (host("a"), None, "late/j/host-a"),
        (None, None, "late/j/unknown"),
    ],
)
def test_ids_are_those_of_the_fault(subject: Subject | None, binding: str | None, name: str) -> None:
    """The id names rule, job and whom it concerns, and is the same in every report of a job."""
    assert name == one(say("firing", subject, rule(**AT_ONCE), binding=binding)).id


def test_figures_are_renewed_now_and_then() -> None:
    """A finding keeps its words for a while, so that evidence is not written anew each second; then it is renewed."""
    tracker, at_once = Tracker(), rule(**AT_ONCE, keep_for_seconds=100.0)
    texts = [
        one(say("firing", of=at_once, values={"delay": float(second)}), tracker, float(second)).summary
        for second in range(int(REFRESH_SECONDS) + 2)
    ]

    assert 2 == len(set(texts))
    assert texts[-1].endswith(f"{REFRESH_SECONDS:.0f} s")


def test_a_fault_that_turns_critical_is_told_at_once() -> None:
    """The severity rises with the condition `critical`, without waiting."""
    tracker, at_once = Tracker(), rule(**AT_ONCE)
    one(say("firing", of=at_once), tracker, 0.0)

    assert "critical" == one(say("firing", of=at_once, critical=True), tracker, 1.0).severity


def test_without_a_clock_findings_have_no_times() -> None:
    """Where nobody knows the time of day, or the event had no time, since and found_at are None."""
    event = Event("crash", R0, None)
    timeless = one(say("firing", of=rule(**AT_ONCE), events=(event,)))
    clockless = one(say("firing", of=rule(**AT_ONCE)), Tracker(unix_offset=None))

    assert (None, None) == (timeless.since, timeless.found_at)
    assert (None, None) == (clockless.since, clockless.found_at)


def test_an_event_began_when_it_happened() -> None:
    """`since` is the time of the event, and `for` counts from it."""
    event = Event("crash", R0, 91.0, place=Place("job.log", 7, "it crashed"))
    finding = one(say("firing", events=(event,), since=91.0))

    assert 91.0 == finding.since
    assert ("job.log", 7, "it crashed") == (
        finding.evidence[0].source, finding.evidence[0].line, finding.evidence[0].text,
    )  # fmt: skip


def test_the_end_of_a_job_waits_for_nothing() -> None:
    """At the end what an event has shown is told, though it has not held for long; what was measured is not."""
    waiting = rule(events=("crash",))
    shown = say("firing", of=waiting, events=(Event("crash", R0, 99.0),), since=99.0)

    assert [] == Tracker().update([shown], 100.0)
    assert 1 == len(Tracker().update([shown], 100.0, final=True))
    assert [] == Tracker().update([say("firing")], 100.0, final=True)


def test_findings_of_unknown_jobs_belong_to_the_watched_one() -> None:
    """A fault of a host counts for the job that is watched."""
    assert "late/mine/host-a" == one(say("firing", host("a"), rule(**AT_ONCE), job=""), Tracker(job="mine")).id


def moment(tracker: Tracker, *times: float | None, codes: tuple[int, ...] = ()) -> list[Finding]:
    """The findings on ranks 0, 1, 2… that failed at these times, by a rule that tells of moments."""
    failed = rule(merge="moment", for_seconds=0.0, summary={"en": "{who} failed with {code}"}, events=("rank_exited",))
    judgements = []
    for number, time in enumerate(times):
        subject = rank(number, host="a", job="j")
        event = Event("rank_exited", subject, time, {}, order=len(times) - number)
        code = codes[number] if codes else 1
        judgements.append(
            say("firing", subject, failed, events=(event,), since=time, values={"code": code}, steps=())
        )  # fmt: skip
    return tracker.update(judgements, 100.0)


def test_a_moment_is_one_finding_named_by_the_first() -> None:
    """Those that begin within a second of the first are told together, worded by it; who comes later is told apart."""
    found = moment(Tracker(), 20.6, 20.0, 24.0, 20.9, 24.5, 30.0)

    told = [(f.id, f.culprit.ranks if f.culprit else (), f.since) for f in found]
    assert [
        ("late/j/rank-1", (0, 1, 3), 20.0), ("late/j/rank-2", (2, 4), 24.0), ("late/j/rank-5", (5,), 30.0),
    ] == told  # fmt: skip


def test_a_moment_speaks_of_whom_the_same_is_true() -> None:
    """Ranks that ended at one moment with different codes are told apart, so that no summary is wrong for any of them."""
    found = moment(Tracker(), 20.0, 20.1, 20.2, codes=(1, -11, 1))

    assert ["ranks 0, 2 on a failed with 1", "rank 1 on a failed with -11"] == [f.summary for f in found]


def test_what_has_no_time_is_of_no_moment() -> None:
    """Where nobody knows who was first, each is told by itself."""
    found = moment(Tracker(), None, None, 20.0)

    assert ["late/j/rank-0", "late/j/rank-1", "late/j/rank-2"] == sorted(f.id for f in found)


def test_what_is_no_longer_known_does_not_take_the_place_of_what_was() -> None:
    """When processes are gone at the end of a job, the texts keep the figures of when they were there."""
    tracker = Tracker()
    for now in range(10):
        tracker.update([say("firing")], float(now))
    (finding,) = tracker.update([say("firing", values={"delay": None})], 10.0 + REFRESH_SECONDS)
    assert "late by 3 s" in finding.summary
    (finding,) = tracker.update([say("firing", values={"delay": 4.0})], 11.0 + REFRESH_SECONDS)
    assert "late by 4 s" in finding.summary
