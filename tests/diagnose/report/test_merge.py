"""One report from several hosts."""

from __future__ import annotations

from dataclasses import replace

from aidiag.diagnose.report.merge import merge
from aidiag.diagnose.report.model import JobFacts, RankRow, Report, Unknown
from aidiag.rules.finding import Culprit, Evidence, Finding

KILL = Finding(
    "rank_killed/j/rank-1", "rank_killed", "rank_killed", "critical", 0.9, "A rank was killed", "rank 1 was killed",
    Culprit("rank", (1,), ("node-b",)), 100.0, 101.0, (Evidence("node-b/evidence.txt", 1, "exit"),), "w", (),
)  # fmt: skip
CLOSED = Finding(
    "peer_connection_closed/j", "peer_crashed", "peer_connection_closed", "warning", 0.6, "Lost", "rank 0 lost a peer",
    Culprit("rank", (0,), ("node-a",)), 100.5, 101.0, (Evidence("node-a/stderr-1.log", 4, "closed"),), "w", (),
)  # fmt: skip


def test_cause_on_one_host_explains_the_victim_on_another() -> None:
    """Each host thought its own finding a root; over both hosts only the kill is one."""
    a = Report(job=JobFacts("j", ("node-a",), 2, "train", 1), findings=(CLOSED,))
    b = Report(job=JobFacts("j", ("node-b",), 2, "train", 137), findings=(KILL,))

    merged = merge([a, b])

    assert ["rank_killed"] == [finding.rule for finding in merged.findings]
    assert [("peer_connection_closed", KILL.id)] == [(f.rule, f.explained_by) for f in merged.consequences]
    assert (("node-a", "node-b"), 2, 1) == (merged.job.hosts, merged.job.world_size, merged.job.exit_status)


def test_same_finding_of_two_hosts_is_one() -> None:
    """Evidence and culprits are those of both, the words those of the more confident one."""
    other = replace(
        KILL, confidence=0.5, summary="weaker", since=99.0, culprit=Culprit("rank", (1, 2), ("node-c",)),
        evidence=(Evidence("node-a/evidence.txt", 7, "seen"),),
    )  # fmt: skip

    (finding,) = merge([Report(findings=(other,)), Report(findings=(KILL,))]).findings

    assert ("rank 1 was killed", 99.0, 2) == (finding.summary, finding.since, len(finding.evidence))
    assert Culprit("rank", (1, 2), ("node-b", "node-c")) == finding.culprit


def test_row_that_knows_more_wins_and_gaps_are_kept() -> None:
    """Each rank has one row; what could not be seen is told once."""
    gap = Unknown("gpu", "no answer")
    poor, rich = RankRow(1, "", "unknown"), RankRow(1, "node-b", "training", steps=5)

    merged = merge(
        [Report(ranks=(poor,), unknown=(gap,)), Report(ranks=(rich, RankRow(0, "node-a", "training")), unknown=(gap,))],
        gaps=[Unknown("host node-c", "left no report")],
    )

    assert [0, 1] == [row.rank for row in merged.ranks]
    assert 5 == merged.ranks[1].steps
    assert [gap, Unknown("host node-c", "left no report")] == list(merged.unknown)


def test_nothing_to_merge() -> None:
    """No reports at all is an empty report with its gaps."""
    assert Report(unknown=(Unknown("x", "y"),)) == merge([], gaps=[Unknown("x", "y")])
