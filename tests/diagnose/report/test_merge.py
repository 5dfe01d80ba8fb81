"""One report from several hosts."""

from __future__ import annotations

from dataclasses import replace

from aidiag.diagnose.report.merge import merge
from aidiag.diagnose.report.model import JobFacts, RankRow, Report, Unknown
from aidiag.diagnose.report.questions import questions
from aidiag.rules.causes import Links
from aidiag.rules.finding import Culprit, Evidence, Finding, Step
from aidiag.rules.model import Exclusion, Explained

KILL = Finding(
    "rank_killed/j/rank-1", "rank_killed", "rank_killed", "critical", 0.9, "A rank was killed", "rank 1 was killed",
    Culprit("rank", (1,), ("node-b",)), 100.0, 101.0, (Evidence("node-b/evidence.txt", 1, "exit"),), "w", (),
)  # fmt: skip
CLOSED = Finding(
    "peer_connection_closed/j", "peer_crashed", "peer_connection_closed", "warning", 0.6, "Lost", "rank 0 lost a peer",
    Culprit("rank", (0,), ("node-a",)), 100.5, 101.0, (Evidence("node-a/stderr-1.log", 4, "closed"),), "w", (),
)  # fmt: skip
LINKS = {
    "rank_killed": Links((Explained("peer_crashed"),), (Exclusion("oom", False, {"en": "look at {host}"}),)),
    "absent": Links(unseen=True),
}
MISSING = Finding(
    "absent/j", "rank_missing", "absent", "critical", 0.75, "Ranks are missing", "2 of 4 ranks are here. No sign of ranks 2-3.",
    Culprit("rank", (2, 3)), 100.0, 101.0, (), "w", (Step("See whether ranks 2-3 were started."),),
)  # fmt: skip


def test_cause_on_one_host_explains_the_victim_on_another() -> None:
    """Each host thought its own finding a root; over both hosts only the kill is one."""
    a = Report(job=JobFacts("j", ("node-a",), 2, "train", 1), findings=(CLOSED,))
    b = Report(job=JobFacts("j", ("node-b",), 2, "train", 137), findings=(KILL,))

    merged = merge([a, b], LINKS)

    assert ["rank_killed"] == [finding.rule for finding in merged.findings]
    assert [("peer_connection_closed", KILL.id)] == [(f.rule, f.explained_by) for f in merged.consequences]
    assert (("node-a", "node-b"), 2, 1) == (merged.job.hosts, merged.job.world_size, merged.job.exit_status)


def test_same_finding_of_two_hosts_is_one() -> None:
    """Evidence and culprits are those of both, the words those of the more confident one."""
    other = replace(
        KILL, confidence=0.5, summary="weaker", since=99.0, culprit=Culprit("rank", (1, 2), ("node-c",)),
        evidence=(Evidence("node-a/evidence.txt", 7, "seen"),),
    )  # fmt: skip

    (finding,) = merge([Report(findings=(other,)), Report(findings=(KILL,))], LINKS).findings

    assert ("rank 1 was killed", 99.0, 2) == (finding.summary, finding.since, len(finding.evidence))
    assert Culprit("rank", (1, 2), ("node-b", "node-c")) == finding.culprit


def test_row_that_knows_more_wins_and_gaps_are_kept() -> None:
    """Each rank has one row; what could not be seen is told once."""
    gap = Unknown("gpu", "no answer")
    poor, rich = RankRow(1, "", "unknown"), RankRow(1, "node-b", "training", steps=5)

    merged = merge(
        [Report(ranks=(poor,), unknown=(gap,)), Report(ranks=(rich, RankRow(0, "node-a", "training")), unknown=(gap,))],
        LINKS,
        gaps=[Unknown("host node-c", "left no report")],
    )

    assert [0, 1] == [row.rank for row in merged.ranks]
    assert 5 == merged.ranks[1].steps
    assert [gap, Unknown("host node-c", "left no report")] == list(merged.unknown)


def test_nothing_to_merge() -> None:
    """No reports at all is an empty report with its gaps."""
    assert Report(unknown=(Unknown("x", "y"),)) == merge([], LINKS, gaps=[Unknown("x", "y")])


def test_what_a_host_that_sees_only_itself_takes_for_missing_is_not() -> None:
    """Two hosts that cannot see each other blame each other's ranks; together nobody is missing, and nothing is told."""
    a = Report(findings=(MISSING,), ranks=(RankRow(0, "a", "group init"), RankRow(1, "a", "group init")))
    others = replace(MISSING, culprit=Culprit("rank", (0, 1)))
    b = Report(findings=(others,), ranks=(RankRow(2, "b", "group init"), RankRow(3, "b", "group init")))

    assert ((), ()) == (merge([a, b], LINKS).findings, merge([a, b], LINKS).consequences)


def test_who_is_missing_everywhere_is_blamed_alone() -> None:
    """Of the ranks that hosts take for missing those remain that nobody saw, in the texts as well; a row of a rank that
    was only expected is no sign of it.
    """
    expected = RankRow(3, "b", "unknown")
    a = Report(findings=(MISSING,), ranks=(RankRow(0, "a", "group init"), RankRow(1, "a", "group init"), expected))
    b = Report(
        findings=(replace(MISSING, culprit=Culprit("rank", (0, 1, 3))),),
        ranks=(RankRow(2, "b", "group init"), expected),
    )

    (finding,) = merge([a, b], LINKS).findings

    assert finding.culprit and (3,) == finding.culprit.ranks
    assert "No sign of rank 3 on any host that has reported." == finding.summary
    assert "2" not in finding.remedy[0].do
    assert "rank 3" in finding.remedy[0].do


def test_who_was_seen_is_no_excuse_for_other_rules() -> None:
    """Only findings about ranks that nobody saw yield to their rows."""
    report = Report(findings=(KILL,), ranks=(RankRow(1, "node-b", "killed"),))

    assert [KILL.id] == [finding.id for finding in merge([report, Report()], LINKS).findings]


def test_questions_are_asked_anew() -> None:
    """What one host asked is withdrawn when another host's finding settles it, and what only both can ask is asked."""
    oom = replace(
        KILL, id="oom/j/b", rule="oom", cause="oom", title="OOM", explains=(), culprit=Culprit("host", (), ("node-b",))
    )
    settled = replace(KILL, id="first/j", rule="first", cause="first", title="First")
    links = {**LINKS, "first": Links((Explained("oom"),))}
    asked = questions([KILL, oom], LINKS, "en")
    assert 1 == len(asked)

    both = merge([Report(findings=(KILL,)), Report(findings=(oom,))], LINKS)
    open_still = merge([Report(findings=(KILL, oom), unknown=asked), Report()], LINKS)
    withdrawn = merge([Report(findings=(KILL, oom), unknown=asked), Report(findings=(settled,))], links)

    assert (asked, asked, ()) == (both.unknown, open_still.unknown, withdrawn.unknown)
