"""Findings in words: who, where, on what evidence."""

from __future__ import annotations

from typing import Any

import pytest

from aidiag.collectors.observation import Event, Place
from aidiag.collectors.signal import Registry
from aidiag.collectors.subject import Subject, gpu, host, nic, port, rank
from aidiag.rules.engine import judge
from aidiag.rules.evidence import MOST_EVIDENCE
from aidiag.rules.expression.tree import Expression, Read, Type
from aidiag.rules.finding import Finding
from aidiag.rules.judgement import Judgement, Reading
from aidiag.rules.loading.document import read_document
from aidiag.rules.loading.rule_file import read_rule
from aidiag.rules.model import Rule
from aidiag.rules.places import ranges, who
from aidiag.rules.telling import Occurrence, tell
from aidiag.rules.window import Window

R = [rank(number, host="a" if number < 4 else "b", job="j") for number in range(8)]


@pytest.mark.parametrize(
    ("subjects", "words", "chinese"),
    [
        ([R[1]], "rank 1 on a", "a 上的 rank 1"),
        (R[0:3], "ranks 0-2 on a", "a 上的 rank 0-2"),
        ([R[0], R[2], R[7]], "ranks 0, 2, 7", "rank 0, 2, 7"),
        ([gpu(3, host="a")], "gpu3 on a", "a 上的 gpu3"),
        (
            [port("mlx5_0", 1, host="a"), port("mlx5_1", 1, host="a")],
            "mlx5_0:1, mlx5_1:1 on a",
            "a 上的 mlx5_0:1, mlx5_1:1",
        ),
        ([host("a")], "host a", "主机 a"),
        ([], "a process that is not known", "某个进程"),
        ([rank(3, host="", job="j")], "rank 3", "rank 3"),
    ],
)
def test_who(subjects: list[Subject], words: str, chinese: str) -> None:
    """Subjects are told as people call them, in both languages."""
    assert words == who(subjects, "en")
    assert chinese == who(subjects, "zh")


def test_ranges() -> None:
    """Runs of numbers are joined."""
    assert "0-3, 5, 7-8" == ranges([0, 1, 2, 3, 5, 7, 8])
    assert "" == ranges([])


def rule(**changes: Any) -> Rule:
    """A rule about ranks."""
    usual = {
        "id": "late", "cause": "c", "title": {"en": "t"}, "severity": "warning", "scope": "rank",
        "summary": {"en": "s"}, "why": {"en": "w"}, "remedy": (), "culprit": "rank",
    }  # fmt: skip
    return Rule(**{**usual, **changes})


def told(of: Rule, *subjects: Subject | None, **filled: Any) -> Finding:
    """The finding of a rule about some subjects."""
    judgements = [Judgement(of, subject, "firing", job="j", **filled) for subject in subjects]
    return tell("x", [Occurrence(judgement, None, None) for judgement in judgements], "en", "j")


@pytest.mark.parametrize(
    ("scope", "culprit", "subject", "kind", "ranks", "hosts", "targets"),
    [
        ("rank", "rank", R[1], "rank", (1,), ("a",), ()),
        ("rank", "host", R[1], "host", (), ("a",), ()),
        ("rank", "job", R[1], "job", (), ("a",), ()),
        ("rank", "gpu", R[1], "gpu", (), ("a",), ("gpu5",)),
        ("gpu", "gpu", gpu(3, host="a"), "gpu", (), ("a",), ("gpu3",)),
        ("nic", "nic", nic("eth0", host="a"), "nic", (), ("a",), ("eth0",)),
        ("rank", "rank", host("a"), "host", (), ("a",), ()),
    ],
)
def test_culprit(scope: Any, culprit: Any, subject: Subject, kind: str, ranks: Any, hosts: Any, targets: Any) -> None:
    """The culprit is the subject, its host, or the GPU of its rank, as the rule says."""
    found = told(rule(scope=scope, culprit=culprit), subject, values={"gpu": "gpu5"}).culprit

    assert found is not None
    assert (kind, ranks, hosts, targets) == (found.kind, found.ranks, found.hosts, found.targets)


def test_nobody_is_blamed_where_nobody_is_known() -> None:
    """A symptom blames nobody, and an event that could not be attributed blames nobody either."""
    assert told(rule(culprit="none"), R[1]).culprit is None
    assert told(rule(), None).culprit is None
    assert told(rule(culprit="gpu"), R[1]).culprit is None


def test_what_else_was_told_is_evidence(registry: Registry) -> None:
    """The line that a rule asks the whole incident for stands right behind the one that it is about."""
    body = (
        b"id: one\ncause: c\ntitle: t\nseverity: critical\nsummary: s\nwhy: w\nremedy: [{do: d}]\nscope: rank\n"
        b'events: [connect_failed]\nwhen: anywhere(nccl_version, version="2.1")'
    )
    found, errors = read_rule(read_document("one.yaml", body), registry)
    assert found is not None, errors
    window = Window(registry, unix_offset=0.0)
    for number in range(3):
        window.add(Event("connect_failed", R[1], 1.0 + number, {}, None, Place("job.log", 10 + number, "failed")))
    window.add(Event("nccl_version", None, 0.5, {"version": "2.1"}, None, Place("job.log", 3, "NCCL version 2.1")))
    (judgement,) = judge([found], window, 20.0)

    evidence = tell("id", [Occurrence(judgement, None, None)], "en", "j").evidence
    assert [one.line for one in evidence] == [10, 3, 11, 12]


def test_a_rule_may_say_which_ranks_are_to_blame() -> None:
    """Who prints that ranks are missing is not who is missing; where nothing is said the usual culprit is left."""
    found = told(rule(culprit_ranks="missing"), R[1], values={"missing": "2-3, 7"}).culprit
    assert found is not None
    assert (found.kind, found.ranks, found.hosts) == ("rank", (2, 3, 7), ())
    unsaid = told(rule(culprit_ranks="missing"), R[1], values={"missing": None}).culprit
    assert unsaid is not None
    assert unsaid.ranks == (1,)


def test_the_host_of_an_unknown_process() -> None:
    """Where an event of nobody names its host, the host is where to look."""
    finding = told(rule(summary={"en": "{who} crashed"}), None, events=(Event("crash", None, 1.0, {"host": "node-a"}),))

    assert finding.culprit is not None
    assert ("host", ("node-a",), "host node-a crashed") == (
        finding.culprit.kind,
        finding.culprit.hosts,
        finding.summary,
    )


def test_an_event_of_the_host_beside_one_of_the_rank() -> None:
    """Where a rule tells a rank and its host together, the rank is to blame."""
    found = told(rule(), R[1], host("a")).culprit

    assert found is not None
    assert ("rank", (1,), ("a",)) == (found.kind, found.ranks, found.hosts)


def test_logged_evidence_has_its_place() -> None:
    """An event with a place gives its line; one without gives its fields."""
    events = (
        Event("crash", R[1], 1.0, {"code": 3}, place=Place("job.log", 17, "boom")),
        Event("crash", R[1], 2.0, {"code": 4}),
    )
    found = [(e.source, e.line, e.text) for e in told(rule(), R[1], events=events).evidence]

    assert [("job.log", 17, "boom"), ("events of rank 1 on a", None, "crash: code 4")] == found


def test_measured_evidence_names_its_source() -> None:
    """What was measured names the measurement, the expression and the value in its unit."""
    lets = {"delay": Expression("2 * step_last_seconds", Read("step_last_seconds"), Type("number"), ("rank",))}
    reading = Reading("step_last_seconds", R[1], (), 0.75)
    memory = Reading("host_memory_available_bytes", host("a"), (), 2.5e9)
    finding = told(rule(lets=lets), R[1], values={"delay": 1.5}, signals={"delay": reading}, readings=(memory,))

    assert [
        ("record of rank 1 on a", None, "2 * step_last_seconds = 1.5"),
        ("host a", None, "host_memory_available_bytes = 2.5e+09"),
    ] == [(e.source, e.line, e.text) for e in finding.evidence]


def test_evidence_in_the_rules_words() -> None:
    """A rule may word its evidence; a line with something unknown in it is left out."""
    worded = rule(evidence=({"en": "{delay:seconds} too late"}, {"en": "{nothing} is known"}))
    finding = told(worded, R[1], values={"delay": 1.5}, signals={"delay": Reading("step_last_seconds", R[1], (), 0.7)})

    assert [("record of rank 1 on a", "1.5 s too late")] == [(e.source, e.text) for e in finding.evidence]


def test_evidence_is_bounded() -> None:
    """Many events and many subjects give a bounded amount of evidence, of the leading subject first."""
    events = tuple(Event("crash", R[1], 1.0, {"code": n}) for n in range(50))
    finding = told(rule(), *R, events=events)

    assert MOST_EVIDENCE == len(finding.evidence)
