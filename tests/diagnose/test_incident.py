"""Judging files after the fact."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidiag.collectors import registry
from aidiag.diagnose.incident import LogFile, diagnose_logs
from aidiag.diagnose.report.model import Report
from aidiag.rules.history import events
from aidiag.rules.loader import load_rules

FAILING = "[rank{0}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


def diagnosed(folder: Path, ranks: int) -> Report:
    """The report on a log in which each of some ranks runs out of memory."""
    path = folder / "job.log"
    path.write_text("".join(FAILING.format(rank) for rank in range(ranks)))
    known = registry()
    files = [LogFile(path, path.name)]
    return diagnose_logs(files, rules=load_rules((), known).rules, registry=known, language="en")


def test_what_is_too_much_to_remember_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When more ranks fail than can be remembered, the report says that some are left out, and what to do."""
    monkeypatch.setattr(events, "SUBJECTS_KEPT", 5)
    [gap] = [gap for gap in diagnosed(tmp_path, 12).unknown if gap.what == "observations"]

    assert "7 of cuda_out_of_memory were never judged" in gap.reason
    assert gap.remedy


def test_what_can_be_remembered_is_all_told(tmp_path: Path) -> None:
    """Where all ranks are judged nothing is said to be left out."""
    assert [] == [gap for gap in diagnosed(tmp_path, 12).unknown if gap.what == "observations"]


EVALUATES = (
    "[1,0]<stdout>:Epoch 10 finished, running evaluation on 50000 images ...\n"
    "[1,1]<stdout>:Epoch 11/90\n"
    "[1,0]<stderr>:WARNING: One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks"
    " and are waiting for remainder of ranks for more than 60 seconds.\n"
    "[1,0]<stderr>:DistributedAdam_Allreduce/HorovodAllreduce_grads_conv1_0 [missing ranks: 0]\n"
)


def test_the_first_rank_that_evaluates_has_no_lack_of_data(tmp_path: Path) -> None:
    """The rank that all others miss works alone: it evaluates, and its epoch was not too short."""
    (tmp_path / "job.log").write_text(EVALUATES)
    known = registry()
    files = [LogFile(tmp_path / "job.log", "job.log")]
    report = diagnose_logs(files, rules=load_rules((), known).rules, registry=known, language="en")
    first = report.findings[0]
    assert "slow_rank_section" == first.cause
    assert first.culprit is not None
    assert (0,) == tuple(first.culprit.ranks)
    assert "uneven_inputs" not in [one.cause for one in report.findings]


def roots(folder: Path, *lines: str) -> list[tuple[str, tuple[int, ...]]]:
    """The causes of a log with the ranks that they blame."""
    (folder / "job.log").write_text("".join(f"{line}\n" for line in lines))
    known = registry()
    files = [LogFile(folder / "job.log", "job.log")]
    report = diagnose_logs(files, rules=load_rules((), known).rules, registry=known, language="en")
    return [(one.cause, tuple(one.culprit.ranks) if one.culprit else ()) for one in report.findings]


def gave_up(rank: int, group: str) -> str:
    """What a rank says that waited in vain."""
    return (
        f"[rank{rank}]:[E1201 10:40:01.1 ProcessGroupNCCL.cpp:616] [{group} Rank {rank}] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 milliseconds "
        "before timing out."
    )


def test_ranks_outside_of_a_group_are_not_missed_in_it(tmp_path: Path) -> None:
    """Who is in a group other than the default one nobody tells: the ranks that do not report may be no members."""
    waiting = [rank for rank in range(8) if rank != 3]
    trainers = [gave_up(rank, "PG ID 2 PG GUID 5(actor_train)") for rank in waiting]
    assert all(ranks == () for _, ranks in roots(tmp_path, *trainers))

    everyone = [gave_up(rank, "PG ID 0 PG GUID 0(default_pg)") for rank in waiting]
    assert (3,) in [ranks for _, ranks in roots(tmp_path, *everyone)]


def test_a_rank_that_waits_itself_is_not_busy(tmp_path: Path) -> None:
    """Rank 0 saved a checkpoint some time before and then waited like all others: that is not what they wait for."""
    saving = "[rank0]: Saving model checkpoint to /data/out/checkpoint-500"
    default = "PG ID 0 PG GUID 0(default_pg)"

    all_wait = roots(tmp_path, saving, *(gave_up(rank, default) for rank in range(4)))
    assert "slow_rank_section" not in [cause for cause, _ in all_wait]
    others_wait = roots(tmp_path, saving, *(gave_up(rank, default) for rank in range(1, 4)))
    assert ("slow_rank_section", (0,)) == others_wait[0]
