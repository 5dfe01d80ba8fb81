"""Who got how far, from the lines of a log."""

from __future__ import annotations

import io

import pytest

from aidiag.collectors.logs import read_log
from aidiag.diagnose.report.model import RankRow
from aidiag.diagnose.report.phases import Phases

COMM = "comm 0x55 rank {rank} nranks 4 cudaDev {rank} nvmlDev {rank} busId 3b000 commId 0x9a - Init {what}"


def rows(*lines: str) -> dict[int, RankRow]:
    """The rows of a log by rank."""
    phases = Phases()
    for _ in phases.follow(read_log(io.BytesIO("\n".join(lines).encode()), reference=1.8e9)):
        pass
    return {row.rank: row for row in phases.rows()}


def nccl(rank: int, text: str) -> str:
    """A line that NCCL prints in the process of a rank."""
    return f"node-a:{100 + rank}:900 [{rank}] NCCL INFO {text}"


@pytest.mark.parametrize(("version", "phase"), [("2.27.5+cuda12.9", "bootstrap"), ("2.18.3+cuda12.1", "topology")])
def test_what_init_start_means_depends_on_the_version(version: str, phase: str) -> None:
    """Up to 2.22 it comes after the bootstrap, later before it."""
    log = [f"NCCL version {version}", *(nccl(rank, COMM.format(rank=rank, what="START")) for rank in (0, 1))]

    assert {row.phase for rank, row in rows(*log).items() if rank < 2} == {phase}


def test_lines_before_the_rank_is_known_count_for_it() -> None:
    """A process that NCCL names by its host and id gets its rank with the communicator's line."""
    found = rows(nccl(0, "Bootstrap : Using eth0:192.0.2.2<0>"), nccl(0, COMM.format(rank=0, what="COMPLETE")))

    assert (found[0].phase, found[0].state, found[0].host) == ("ready", "running", "node-a")


def test_channels_after_init_complete_are_those_of_the_first_collective() -> None:
    """From 2.22 on NCCL connects at the first collective."""
    log = (nccl(0, COMM.format(rank=0, what="COMPLETE")), nccl(0, "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"))

    assert rows(*log)[0].phase == "first collective"


def test_a_second_communicator_begins_anew() -> None:
    """A rank that hangs in the start-up of a further communicator is not ready."""
    log = [nccl(rank, COMM.format(rank=rank, what=what)) for rank in (0, 1) for what in ("START", "COMPLETE", "START")]

    assert {rows(*log)[rank].state for rank in (0, 1)} == {"starting"}


def test_ranks_of_which_nothing_was_heard_are_listed() -> None:
    """Two of four came: the others have rows, too. A log of one rank alone says nothing of the others."""
    log = [nccl(rank, COMM.format(rank=rank, what="START")) for rank in (0, 2)]

    assert [rank for rank, row in rows(*log).items() if row.state == "missing"] == [1, 3]
    assert list(rows(log[0])) == [0]


def test_how_a_rank_ended_is_its_state() -> None:
    """Killed, failed, or waiting in vain, with the error in words."""
    found = rows(
        "Process 1 exit with status code 137.",
        "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "[rank3]: [/x/pair.cc:534] Connection closed by peer [127.0.0.1]:12345",
    )
    assert [found[rank].state for rank in (1, 2, 3)] == ["killed", "failed", "lost a peer"]
    assert found[1].detail == "exit code 137"
