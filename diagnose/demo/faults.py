"""The faults that a demo can have, and the cause that must be found for each."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from aidiag.rules.finding import Finding


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: its options for train.py, what is wrong in words, and the causes of which one must be found, with
    this rank to blame where one is. No causes: nothing must be found.
    """

    name: str
    options: tuple[str, ...]
    words: str
    causes: frozenset[str] = frozenset()
    rank: int | None = None

    def found_in(self, findings: Collection[Finding]) -> bool:
        """Whether a report's root causes say what was planted, and, for a healthy job, that nothing is wrong."""
        alarms = [finding for finding in findings if finding.severity != "info"]
        if not self.causes:
            return not alarms
        return any(
            finding.cause in self.causes
            and (self.rank is None or (finding.culprit is not None and self.rank in finding.culprit.ranks))
            for finding in alarms
        )


FAULTS = {
    fault.name: fault
    for fault in (
        Fault(
            "slow-loader",
            ("--workers", "1", "--read-ms", "3"),
            "each sample takes 3 ms to read, and each rank has one loader worker",
            frozenset({"util_input_bound"}),
        ),
        Fault(
            "straggler",
            ("--straggler", "1"),
            "rank 1 computes every forward pass four times",
            frozenset({"straggler"}),
            rank=1,
        ),
        Fault(
            "dead-rank",
            ("--dead-rank", "1"),
            "rank 1 is killed (SIGKILL) half way",
            frozenset({"rank_killed"}),
            rank=1,
        ),
        Fault("healthy", (), "nothing is wrong: no finding is the right answer"),
    )
}
