"""What the lines of many processes say together: numbers that do not add up, meeting places apart, who failed first."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aidiag.collectors.logs import read_log
from aidiag.collectors.logs.roster import Roster
from aidiag.collectors.observation import Event

DERIVED = ("world_size_conflict", "rendezvous_conflict", "ranks_absent", "failed_first")


def told(*lines: str) -> dict[str, Event]:
    """What the roster adds to the events of a log, by kind."""
    roster = Roster()

    def events() -> Iterator[Event]:
        for event in read_log(io.BytesIO("\n".join(lines).encode()), reference=1.8e9):
            yield from roster.see(event)
        yield from roster.close()

    return {event.kind: event for event in events() if event.kind in DERIVED and "message" not in event.fields}


def member(rank: int, of: int) -> str:
    """How Lightning announces a rank."""
    return f"Initializing distributed: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/{of}"


def test_ranks_that_come_twice_are_a_conflict() -> None:
    """Two tasks that each start local workers with node rank 0 announce the same ranks."""
    conflict = told(member(1, 4), member(1, 4), member(0, 4), member(0, 4))["world_size_conflict"]

    assert conflict.fields["detail"] == "rank 1 was started twice"
    assert conflict.place is not None
    assert conflict.place.line == 2


def test_ranks_that_come_once_are_none() -> None:
    """The healthy twin: each rank announces itself once."""
    assert told(*(member(rank, 4) for rank in range(4))) == {}


def test_a_restart_is_no_second_start() -> None:
    """A restarted job announces its ranks again, after all that it printed before."""
    start = [member(0, 2), member(1, 2)]

    assert told(*start, *["step"] * 40, *start) == {}


def test_a_quick_restart_is_no_second_start() -> None:
    """Where the launcher says that it starts its workers again, the ranks that follow are the next attempt."""
    start = [member(0, 2), member(1, 2)]
    again = "E1101 10:00:01.1 api.py:869] [default] Worker group FAILED. 2/3 attempts left; will restart worker group"

    assert "world_size_conflict" not in told(*start, again, *start)
    assert "world_size_conflict" in told(*start, *start)


def test_a_rank_beyond_the_world_is_a_conflict_and_names_the_others_beyond() -> None:
    """Sixteen tasks of a program that was told a world of two: 2 to 15 have no place in it."""
    log = ("SLURM_NTASKS=16", "Launching on node-a with rank 3 of distributed world size 2")

    assert told(*log)["world_size_conflict"].fields["ranks"] == "2-15"


def test_ranks_that_nobody_started_are_awaited_in_vain() -> None:
    """All that were launched have come, and the program waits for more."""
    wait = "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 2/8 clients joined."

    assert told("torchrun --nproc-per-node 2 train.py", wait)["world_size_conflict"].fields["found"] == 2


def test_a_rank_that_was_started_and_did_not_come_is_absent() -> None:
    """The twin: eight were launched, so that the numbers agree and ranks are missing."""
    wait = "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 2/4 clients joined."
    found = told(
        "torchrun --nproc-per-node 4 train.py", "| distributed init (rank 0)", "| distributed init (rank 3)", wait
    )

    assert "world_size_conflict" not in found
    assert found["ranks_absent"].fields["ranks"] == "1, 2"


@pytest.mark.parametrize(
    ("log", "what"),
    [
        (
            [
                "config has no run_id, generated a random run_id: 1",
                "config has no run_id, generated a random run_id: 2",
            ],
            "run_id",
        ),
        (
            [f"Process {pid} hosts the TCP store for the C10d rendezvous backend." for pid in (11, 12)],
            "store",
        ),
        (["torchrun --nnodes=4 --rdzv-endpoint=localhost:29500 train.py"], "loopback"),
    ],
)
def test_meeting_places_apart_are_told_when_the_rendezvous_fails(log: list[str], what: str) -> None:
    """Random ids, a store on each node, the loopback address: a conflict once nobody met, and none before."""
    failed = "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError"

    assert told(*log, failed)["rendezvous_conflict"].fields["what"] == what
    assert told(*log) == {}


def test_ports_that_each_process_chose_are_told() -> None:
    """Every process calls for a free port itself; where all have one port nothing is wrong."""
    assert "45227" in str(told("MASTER_PORT='37881'", "MASTER_PORT='45227'")["rendezvous_conflict"].fields["values"])
    assert told("MASTER_PORT='37881'", "MASTER_PORT='37881'") == {}


LOST = (
    "[rank0]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely."
)


def test_the_rank_that_failed_by_itself_first_is_named() -> None:
    """An error that nobody knows, on one rank, before another lost a peer."""
    first = told("[rank3]: [ERROR] the tokenizer lost its table", LOST)["failed_first"]

    assert first.fields["rank"] == 3


def test_the_last_line_of_a_traceback_that_is_not_whole_counts() -> None:
    """An exception's own line, pasted without what stands above it, is an error of the rank that printed it."""
    events = told(
        "[rank2]: KeyError: 'input_ids'",
        "[rank0]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.2]:4",
    )
    assert "error_printed" == events["failed_first"].fields["what"]
    assert 2 == events["failed_first"].fields["rank"]


def test_an_error_after_a_lost_peer_is_no_first_one() -> None:
    """The twin: whoever lost a peer before is a victim, and so is one whose error speaks of the network."""
    assert "failed_first" not in told(LOST, "[rank3]: [ERROR] the tokenizer lost its table")
    assert "failed_first" not in told("[rank3]: RuntimeError: NCCL communicator was aborted", LOST)


def test_an_error_that_several_ranks_print_names_none() -> None:
    """What all print is not what one did."""
    same = [f"[rank{rank}]: [ERROR] no such option" for rank in (2, 3)]

    assert "failed_first" not in told(*same, LOST)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([member(0, 2), member(9, 2), LOST, "MASTER_PORT=1", "MASTER_PORT=x", "SLURM_NTASKS=1",
    "SLURM_NTASKS_PER_NODE=3", "[rank1]: KeyError: x", "Timed out after 1 seconds waiting for clients. 3/2 clients joined."]), max_size=30))  # fmt: skip
def test_events_pass_the_roster_whatever_their_order(lines: list[str]) -> None:
    """Each event comes out once, and each contradiction is told at most once."""
    told_events = list(read_log(io.BytesIO("\n".join(lines).encode()), reference=1.8e9))
    roster = Roster()
    out = [one for event in told_events for one in roster.see(event)] + list(roster.close())

    assert [event for event in out if "message" in event.fields] == told_events
    assert len([event for event in out if event.kind == "failed_first"]) <= 1


def start(rank: int, what: str = "START") -> str:
    """A line of NCCL about the start-up of a communicator of four."""
    return f"node-a:{rank + 10}:99 [{rank}] NCCL INFO comm 0x5{rank} rank {rank} nranks 4 cudaDev {rank} busId 3b000 commId 0x9a - Init {what}"


def test_a_rank_that_does_not_enter_a_communicator_is_absent() -> None:
    """Three of four wait in NCCL's start-up; once they are through nobody was absent, and one of four may be an excerpt."""
    three = [start(rank) for rank in (0, 1, 3)]

    assert told(*three)["ranks_absent"].fields["ranks"] == "2"
    assert told(*three, start(0, "COMPLETE")) == {}
    assert told(start(0)) == {}


def device_row(pid: int, rank: int = 0) -> str:
    """How nccl-tests tells the device of a rank."""
    return f"#  Rank  {rank} Group  0 Pid {pid} on     node-a device  {rank} [0x1a] NVIDIA H100 80GB HBM3"


def test_a_benchmark_built_without_mpi_is_many_times_rank_0() -> None:
    """Each process of mpirun is a world of its own."""
    assert told(*(device_row(pid) for pid in (41, 42, 43)))["world_size_conflict"].fields["rank"] == 0


def test_benchmarks_after_each_other_are_no_second_start() -> None:
    """Each run has its table of devices, and results lie between them."""
    assert told(device_row(41), *["       1048576        262144     float"] * 9, device_row(57)) == {}


def test_more_at_the_barrier_than_ranks_is_a_conflict() -> None:
    """Each of the processes that a launcher started started as many again."""
    line = "Waiting in store based barrier to initialize process group for rank: 0, key: store_based_barrier_key:1 (world_size=4, worker_count={}, timeout=0:30:00)"

    assert told(line.format(3)) == {}
    assert told(line.format(9))["world_size_conflict"].fields["found"] == 9


def launch(node: int, port: int) -> str:
    """A command that starts one node."""
    return f"torchrun --nnodes=2 --node_rank={node} --master_addr=10.0.0.4 --master_port={port} train.py"


def test_nodes_that_were_told_different_ports_are_apart() -> None:
    """One port for node 0 and another for node 1; the same for both is none, nor is another port for a second try."""
    failed = "torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 1/2 clients joined."

    assert told(launch(0, 7001), launch(1, 7002), failed)["rendezvous_conflict"].fields["what"] == "master_port"
    assert "rendezvous_conflict" not in told(launch(0, 7001), launch(1, 7001), failed)
    again = (launch(0, 7001), launch(1, 7001), launch(0, 7002), launch(1, 7002))
    assert "rendezvous_conflict" not in told(*again, failed)


def test_launchers_of_different_run_ids_are_apart() -> None:
    """What the launchers print of their settings at their start."""
    log = [
        f"  {name:<17}: {value}" for name, value in (("max_nodes", 2), ("run_id", 11), ("max_nodes", 2), ("run_id", 12))
    ]

    assert told(*log, "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError")["rendezvous_conflict"]
