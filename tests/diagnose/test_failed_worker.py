"""An error without a label is that of the one worker which its launcher saw fail by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidiag.collectors import registry
from aidiag.diagnose.incident import LogFile, diagnose_logs
from aidiag.rules.finding import Finding
from aidiag.rules.loader import load_rules

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
AGENT = "E1201 00:17:37.000000 1 torch/distributed/elastic/multiprocessing/api.py:1] "
FAILED = AGENT + "failed (exitcode: {code}) local_rank: {local} (pid: {pid}) of binary: /usr/bin/python3\n"
ENTRY = "  rank      : {rank} (local_rank: {local})\n  exitcode  : {code} (pid: {pid})\n  error_file: <N/A>\n"
KERNEL = "Memory cgroup out of memory: Killed process 4711 (python) total-vm:4kB, anon-rss:4kB, file-rss:0kB, shmem-rss:0kB\n"
CLOSED = "RuntimeError: [/gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.1]:1234\n"


def table(*entries: str) -> str:
    """The table of failures that torchrun prints, its root cause last."""
    others = "".join(f"[{number}]:\n{entry}" for number, entry in enumerate(entries[:-1], 1))
    line, rule = "-" * 60 + "\n", "=" * 60 + "\n"
    return f"{rule}train.py FAILED\n{line}Failures:\n{others}{line}Root Cause (first observed failure):\n[0]:\n{entries[-1]}{rule}"


def first(folder: Path, text: str, language: str = "en") -> Finding:
    """The first finding on a log."""
    path = folder / "job.log"
    path.write_text(text)
    known = registry()
    rules = load_rules((), known).rules
    return diagnose_logs([LogFile(path, "job.log")], rules=rules, registry=known, language=language).findings[0]


def ranks(finding: Finding) -> tuple[int, ...]:
    """Whom a finding blames."""
    return finding.culprit.ranks if finding.culprit else ()


@pytest.mark.parametrize(
    ("text", "cause", "expected"),
    [
        (OOM + FAILED.format(code=1, local=5, pid=7), "oom_capacity", (5,)),
        (
            OOM + table(ENTRY.format(rank=8, local=0, code=-15, pid=6), ENTRY.format(rank=13, local=5, code=1, pid=7)),
            "oom_capacity",
            (13,),
        ),
        (KERNEL + table(ENTRY.format(rank=10, local=2, code=-9, pid=74)), "oom_host_killed", (10,)),
        (OOM, "oom_capacity", ()),
        ("NNODES=2\n" + OOM + FAILED.format(code=1, local=5, pid=7), "oom_capacity", ()),
        (OOM + FAILED.format(code=-15, local=5, pid=7), "oom_capacity", ()),
        (OOM + FAILED.format(code=1, local=5, pid=7) + FAILED.format(code=1, local=3, pid=8), "oom_capacity", ()),
        (f"[rank21]: some text, and then\n[rank21]: {CLOSED}{OOM}" + FAILED.format(code=1, local=5, pid=7), "oom_capacity", ()),
        (f"[rank2]: {OOM}" + FAILED.format(code=1, local=5, pid=7), "oom_capacity", (2,)),
    ],
)  # fmt: skip
def test_the_only_worker_that_failed_by_itself_is_blamed(
    text: str, cause: str, expected: tuple[int, ...], tmp_path: Path
) -> None:
    """Only where there is one, where its rank is known, and where the error itself names nobody."""
    finding = first(tmp_path, text)
    assert (finding.cause, ranks(finding)) == (cause, expected)


def test_its_rank_stands_in_the_text(tmp_path: Path) -> None:
    """The summary names the rank, in the language of the report."""
    text = OOM + FAILED.format(code=1, local=5, pid=7)
    assert first(tmp_path, text).summary.startswith("rank 5 ran out of GPU memory")
    assert first(tmp_path, text, "zh").summary.startswith("rank 5")


def test_what_a_victim_prints_is_not_that_of_the_one_that_failed_first(tmp_path: Path) -> None:
    """A closed connection without a label is of some other rank than the one that was killed."""
    path = tmp_path / "job.log"
    path.write_text(CLOSED + table(ENTRY.format(rank=0, local=0, code=1, pid=6), ENTRY.format(rank=1, local=1, code=-9, pid=7)))  # fmt: skip
    known = registry()
    report = diagnose_logs([LogFile(path, "job.log")], rules=load_rules((), known).rules, registry=known, language="en")
    closed = [one for one in (*report.findings, *report.consequences) if one.rule == "peer_connection_closed"]
    assert [ranks(one) for one in closed] == [()]


def test_a_worker_that_was_told_to_stop_is_another_one(tmp_path: Path) -> None:
    """Who was stopped is not who failed."""
    path = tmp_path / "job.log"
    path.write_text(FAILED.format(code=1, local=5, pid=7) + FAILED.format(code=-15, local=3, pid=8))
    known = registry()
    report = diagnose_logs([LogFile(path, "job.log")], rules=load_rules((), known).rules, registry=known, language="en")
    stopped = [one for one in (*report.findings, *report.consequences) if one.cause == "external_signal"]
    assert [ranks(one) for one in stopped] == [(3,)]


def test_a_worker_has_the_rank_that_the_table_tells_later(tmp_path: Path) -> None:
    """By its process id, and where it was started again by its local rank."""
    again = FAILED.format(code=-9, local=1, pid=7) + FAILED.format(code=-9, local=1, pid=8)
    text = again + table(ENTRY.format(rank=0, local=0, code=-15, pid=6), ENTRY.format(rank=1, local=1, code=-9, pid=8))
    finding = first(tmp_path, text)
    assert (finding.cause, ranks(finding)) == ("rank_killed", (1,))
    assert len({item.line for item in finding.evidence}) == 3


def test_a_rank_that_waited_in_vain_is_not_the_one_that_failed(tmp_path: Path) -> None:
    """Its timeout is told with its label, its end without."""
    waited = "[rank0]: RuntimeError: [/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 8000ms for recv operation to complete\n"
    finding = first(tmp_path, waited + FAILED.format(code=1, local=0, pid=7))
    assert finding.cause == "no_progress"


def test_evidence_is_lines_where_there_are_lines(tmp_path: Path) -> None:
    """What was concluded without a line of its own is not told as evidence beside lines."""
    finding = first(tmp_path, OOM + FAILED.format(code=1, local=5, pid=7))
    assert finding.evidence
    assert all(item.line is not None for item in finding.evidence)
