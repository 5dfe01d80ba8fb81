from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aidiag.collectors.logs.attribution import Owner
from aidiag.collectors.logs.catalogue import read_catalogue
from aidiag.collectors.logs.prefix import read_labels, read_prefix
from aidiag.collectors.logs.processes import Processes
from aidiag.collectors.observation import Event
from aidiag.collectors.subject import Subject, rank

Read = Callable[..., list[Event]]

OOM = "CUDA out of memory. Tried to allocate 2.00 GiB"
ERROR = f"torch.OutOfMemoryError: {OOM}"
EXAMPLES = [line for one in read_catalogue() for line in one.examples]


def ranks(events: list[Event], kind: str = "cuda_out_of_memory") -> list[int | None]:
    """The rank of each event of a kind."""
    return [event.subject.rank if event.subject else None for event in events if event.kind == kind]


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("[rank: 3] ", {"rank": 3}),  # Lightning
        ("[Rank 3] ", {"said_rank": 3}),
        ("[RANK=3] ", {"said_rank": 3}),
        ("(rank 3): ", {"said_rank": 3}),
        ("Rank 4: ", {"said_rank": 4}),
        ("RANK 0 - ", {"said_rank": 0}),
        ("rank0 | INFO | ", {"said_rank": 0}),
        ("[2024-05-03 10:11:12,123][rank:3][trainer][ERROR] - ", {"said_rank": 3}),
        ("[2025-02-23 11:40:08 TP8] ", {"rank": 8}),  # SGLang
        ("[2025-02-23 11:40:08 TP8 EP8] Capture cuda graph failed: ", {"rank": 8}),
        ("[2025-02-23 11:40:08 DP1 TP3] ", {"rank": None}),
        ("[2025-02-23 11:40:08 PP1 TP3] ", {"rank": None}),
        ("(Worker_TP3 pid=77) ERROR 04-29 10:04:15 [multiproc_executor.py:772] ", {"rank": 3, "pid": 77}),  # vLLM
        ("(VllmWorker rank=2 pid=77) ERROR 04-29 10:04:15 [multiproc_executor.py:772] ", {"rank": 2, "pid": 77}),
        ("(Worker_DP1_TP1_EP3 pid=77) ", {"rank": 3}),
        ("(Worker_PP1_TP1 pid=77) ", {"rank": None, "pid": 77}),
        ("(VllmWorkerProcess pid=5) ERROR 08-02 08:50:03 worker_base.py:382] ", {"rank": None, "pid": 5}),
        ("(EngineCore_DP0 pid=41) (RayWorkerWrapper pid=13, ip=10.0.1.22) ", {"pid": 13, "host": "10.0.1.22"}),
        ("(RayTrainWorker pid=593, ip=10.0.6.103) node-c:593:593 [0] NCCL INFO ", {"pid": 593, "host": "node-c"}),
        ("[1,0]<stdout>:", {"task": 0}),
        ("[prterun-node-a-12@1,3]<stderr>: ", {"task": 3}),
        ("[prterun-node-a-12@1,3][node-b:77]<stderr>: ", {"task": 3, "host": "node-b", "pid": 77}),
        ("Tue Jun 15 12:25:59 2021[0]<stderr>:  what():  ", {"task": 0}),  # horovodrun
        ("2024-11-12T08:14:31.006Z algo-1 [1,mpirank:3,algo-1]<stderr>:", {"task": 3, "host": "algo-1"}),  # SageMaker
        ("[1,mpirank:3,algo-1]<stderr>:algo-1:88:402 [3] NCCL WARN ", {"task": 3, "pid": 88, "device": 3}),
        ("[NeMo W 2024-05-03 10:11:12 nemo_logging:349] ", {"rank": None}),
        ("[NeMo E 2024-05-03 10:11:12 nemo_logging:349 rank:5] ", {"rank": 5}),
        (
            "2024-05-01 12:00:00,123: rank3[471][MainThread]: ERROR: llmfoundry.train: ",
            {"rank": 3, "pid": 471},
        ),  # Composer
        ("05/12/2023 10:11:12 - WARNING - __main__ - ", {"rank": None}),
        ("2024-01-01 10:00:00.123 | ERROR    | trainer.loop:step:12 - ", {"rank": None}),
        ("[pod/bert-worker-0] ", {"host": "bert-worker-0"}),
        ("2026-11-30T20:18:29+0000 node-a python[12]: ", {"host": "node-a"}),
        ("kern  :err   : [12345.678901] ", {"host": ""}),
        ("[  +0.512001] ", {"host": ""}),
        ("[rank0]:[titan] 2024-10-01 10:11:12,123 - root - INFO - ", {"rank": 0}),
        ("[local rank: 3] ", {"rank": None, "local_rank": 3}),
        ("node-a: Test NCCL failure common.cu:958 '", {"host": "node-a"}),
        ("[2023-08-10 12:00:00,000] [INFO] [logging.py:96:log_dist] [Rank 2] ", {"said_rank": 2}),  # DeepSpeed
        ("[E ProcessGroupNCCL.cpp:1182] [Rank 1] NCCL watchdog thread terminated with exception: ", {"group_rank": 1}),
        ("W0823 16:54:02.337000 139733055988160 torch/distributed/elastic/agent/server/api.py:688] ", {"pid": None}),
    ],
)
def test_labels_of_many_programs_are_read(label: str, expected: dict[str, object]) -> None:
    """What each launcher or logger puts before a message parses to its end, and says no more than is certain."""
    prefix = read_prefix(f"{label}message".encode(), len(label))
    assert prefix.whole
    assert {name: getattr(prefix, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("label", "host"),
    [
        ("{}: ", "node-{}"),
        ("{}: ", "10.0.0.{}"),
        ("[{}] ", "node-{}"),
        ("{}  | ", "worker-{}"),
        ("{} pytorch ", "trainer-worker-{}"),
    ],
)
def test_names_before_lines_are_hosts_where_they_are_a_habit(read: Read, label: str, host: str) -> None:
    """pdsh, docker compose and stern put a name before each line; where only one line has one, it is no host."""
    labelled = "".join(f"{label.format(host.format(n))}INFO step {n}\n" for n in (1, 2, 1, 2))
    (event,) = read(labelled + f"{label.format(host.format(2))}{ERROR}\n")
    assert event.fields["host"] == host.format(2)
    (event,) = read(f"some\nother\nlines\nhere\n{label.format(host.format(2))}{ERROR}\n")
    assert "host" not in event.fields


def test_a_program_that_names_itself_in_brackets_is_no_host(read: Read) -> None:
    """`[TRT-LLM]` before all lines is a program."""
    (event,) = read("[TRT-LLM] INFO step\n" * 6 + f"[TRT-LLM] {ERROR}\n")
    assert "host" not in event.fields


def test_mpich_labels_count_where_the_lines_around_have_them(read: Read) -> None:
    """`[3] ` is a task's label in the output of `mpiexec -l`, and a job of the shell elsewhere."""
    assert ranks(read("".join(f"[{n}] INFO step {n}\n" for n in range(8)) + f"[3] {ERROR}\n")) == [3]
    assert ranks(read(f"some\nother\nlines\nhere\n[3] {ERROR}\n")) == [None]


def test_a_traceback_belongs_to_the_rank_whose_logger_began_it(read: Read) -> None:
    """A logger labels the first line of what it prints only; the lines right after it are still its own."""
    log = (
        "[2025-02-23 11:40:08 TP5] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "/job/serve.py", line 7, in run\n    step()\nValueError: bad batch\n'
    )
    (event,) = [one for one in read(log) if one.kind == "python_exception"]
    assert event.subject is not None
    assert (event.subject.rank, event.fields["file"], event.fields["line"]) == (5, "/job/serve.py", 7)


def test_two_tracebacks_without_labels_in_their_lines_blame_nobody(read: Read) -> None:
    """Where the second one begins within the first one, what follows may be of either."""
    log = (
        "[2025-02-23 11:40:08 TP5] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "/job/serve.py", line 7, in run\n'
        "[2025-02-23 11:40:08 TP6] Scheduler hit an exception: Traceback (most recent call last):\n"
        '    step()\n  File "/job/other.py", line 9, in run\nValueError: bad batch\n'
    )
    assert 5 not in ranks(read(log), "python_exception")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"[rank3]: {ERROR}", 3),
        (f"[rank3]:[E1130 17:05:38.162555850 ProcessGroupNCCL.cpp:632] {OOM}", 3),
        (f"[1,3]<stderr>:{ERROR}", 3),
        (f"[default1]:[rank3]: {ERROR}", 3),
        (f"2026-11-30T20:18:39.5Z stderr F [rank3]: {ERROR}", 3),
        (f"[rank3]: 2026-11-30 20:18:39,123 - ERROR - train - {OOM}", 3),
        (f"[rank3]: [2026-11-30 20:18:39,123] [ERROR] [train.py:33 in main] {OOM}", 3),
        (f"[rank3]: ERROR:root:{OOM}", 3),
        (f"[rank3]:   what():  {OOM}", 3),
        (ERROR, None),
        (f"step 12 [rank3]: {ERROR}", None),
        (f"[rank3]: step 12 loss 0.5{ERROR}", None),
        (f"[rank3]: [rank5]: {ERROR}", None),
        (f"rank3]: {ERROR}", None),
        (f"[rank99999999]: {ERROR}", None),
        (f"[rank1048577]: {ERROR}", None),
    ],
)
def test_a_label_says_the_rank_where_the_whole_prefix_parses(read: Read, line: str, expected: int | None) -> None:
    """Labels of torch and mpirun count, torn and contradictory ones do not."""
    assert ranks(read(line + "\n")) == [expected]


BAR = "Epoch 3:  50%|#####     | 10/20 [00:10<00:10,  1.00s/it, loss=0.5]"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"{BAR}[rank3]: {ERROR}", 3),
        (f"[1,4]<stderr>:{BAR}{ERROR}", 4),
        (f"{BAR}{ERROR}", None),
        (f"[rank3]: {BAR}{ERROR}", None),
        (f"{BAR[:40]}[rank3]: {ERROR}", None),
    ],
)
def test_what_follows_a_progress_bar_is_not_that_of_the_bar(read: Read, line: str, expected: int | None) -> None:
    """A bar has no line end of its own: the label after it counts, or that of a launcher before it, and no other one."""
    assert ranks(read(line + "\n")) == [expected]


def test_srun_labels_count_where_the_lines_around_have_them(read: Read) -> None:
    """`3: ` is a task's label in the output of `srun --label`, and a number elsewhere."""
    labelled = "".join(f"{n}: step {n}\n" for n in range(8))
    assert ranks(read(labelled + f"3: {ERROR}\n")) == [3]
    assert ranks(read(f"some\nother\nlines\nhere\n3: {ERROR}\nand\nmore\n")) == [None]


def test_srun_labels_are_all_of_one_width(read: Read) -> None:
    """srun pads its labels, so a narrower one has lost a digit to another line."""
    labelled = "".join(f"{n:2d}: step\n" for n in range(16))
    assert ranks(read(labelled + f"13: {ERROR}\n" + labelled)) == [13]
    assert ranks(read(labelled + f" 3: {ERROR}\n" + labelled)) == [3]
    assert ranks(read(labelled + f"3: {ERROR}\n" + labelled)) == [None]


def test_tasks_that_start_several_ranks_are_not_ranks(read: Read) -> None:
    """Under `srun torchrun` the label is that of the launcher; two processes with one label show it."""
    lines = [
        f"{task}: node-{task}:{10 + local}:99 [{local}] NCCL INFO Using network IB"
        for task in (0, 1)
        for local in (0, 1)
    ]
    events = read("\n".join([*lines, f"1: {ERROR}", f"1: [rank3]: {ERROR}"]) + "\n")
    assert ranks(events) == [None, 3]
    one_each = [f"{task}: node-{task}:10:99 [0] NCCL INFO Using network IB" for task in range(4)]
    assert ranks(read("\n".join([*one_each, f"1: {ERROR}"]) + "\n")) == [1]


def test_a_communicator_tells_which_process_is_which_rank(read: Read) -> None:
    """From a line of a communicator on, the host and process id of an NCCL prefix stand for a rank."""
    log = (
        "node-a:10:11 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 commId 0x5 - Init COMPLETE\n"
        "node-b:10:11 [0] NCCL INFO comm 0x2 rank 1 nranks 2 cudaDev 0 busId 1000 commId 0x5 - Init COMPLETE\n"
        "node-b:10:15 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer node-a<4000>\n"
    )
    closed = read(log)[-1]
    assert closed.subject == rank(1, host="node-b", job="j")
    assert closed.fields["pid"] == 10


def test_the_largest_communicator_numbers_the_ranks(read: Read) -> None:
    """A smaller one, of a tensor-parallel group, does not."""
    line = "node-b:10:11 [0] NCCL INFO comm 0x{} rank {} nranks {} cudaDev 0 busId 1000 - Init COMPLETE\n"
    warn = "node-b:10:11 [0] NCCL WARN Cuda failure 'x'\n"
    assert ranks(read(line.format(1, 5, 8) + line.format(2, 1, 4) + warn), "cuda_error") == [5]
    assert ranks(read(line.format(2, 1, 4) + line.format(1, 5, 8) + warn), "cuda_error") == [5]
    assert ranks(read(line.format(2, 1, 4) + line.format(3, 2, 4) + warn), "cuda_error") == [None]


def test_two_holders_of_one_rank_show_that_it_is_not_the_jobs(read: Read) -> None:
    """Where processes of two hosts are rank 0 of 2, these are groups, and nobody is named by them."""
    line = "node-{}:10:11 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 - Init COMPLETE\n"
    warn = "node-a:10:11 [0] NCCL WARN Cuda failure 'x'\n"
    assert ranks(read(line.format("a") + warn), "cuda_error") == [0]
    assert ranks(read(line.format("a") + line.format("b") + warn), "cuda_error") == [None]


def test_the_table_of_nccl_tests_tells_which_process_is_which_rank(read: Read) -> None:
    """A line of NCCL names only host and process; one process that holds several ranks stays nobody's."""
    table = "#  Rank  {} Group  0 Pid   {} on     {} device  {} [0x01] NVIDIA A100\n"
    warning = "{}:{}:{} [0] NCCL WARN Bootstrap : no socket interface found\n"
    two = table.format(0, 3120, "node-a", 0) + table.format(1, 2871, "node-b", 0)
    one = table.format(0, 3120, "node-a", 0) + table.format(1, 3120, "node-a", 1)

    assert ranks(read(two + warning.format("node-b", 2871, 2871)), "nccl_no_interface") == [1]
    assert ranks(read(one + warning.format("node-a", 3120, 3120)), "nccl_no_interface") == [None]


def test_impossible_ranks_are_not_learned(read: Read) -> None:
    """A rank beyond the size of its communicator is no rank."""
    log = "node-b:10:11 [0] NCCL INFO comm 0x1 rank 9 nranks 2 cudaDev 0 busId 1000 - Init COMPLETE\n"
    assert ranks(read(log), "nccl_init_completed") == [None]


def test_the_rank_in_a_process_group_is_that_of_the_job_only_for_the_default_group(read: Read) -> None:
    """`[PG ID 3 ... Rank 1]` counts within its group; torch's own label before it says the rank of the job."""
    text = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=10) ran for 11 milliseconds before timing out.\n"
    kind = "collective_timeout"
    assert ranks(read("[PG ID 0 PG GUID 0(default_pg) Rank 6] " + text), kind) == [6]
    assert ranks(read("[PG ID 3 PG GUID 7(tp) Rank 1] " + text), kind) == [None]
    assert ranks(read("[rank6]:[E ProcessGroupNCCL.cpp:1] [PG ID 3 PG GUID 7(tp) Rank 1] " + text), kind) == [6]
    assert ranks(read("[E ProcessGroupNCCL.cpp:1] [Rank 6] " + text), kind) == [6]


def test_an_owner_goes_before_the_text(read: Read) -> None:
    """In a file that is known to be rank 2's, a forged label blames nobody else; without label it is rank 2's as well."""
    owner = Owner(rank=2, host="node-c")
    for line in (ERROR, f"[rank7]: {ERROR}", f"half a l[rank7]: {ERROR}"):
        (event,) = read(line + "\n", owner=owner)
        assert event.subject == rank(2, host="node-c", job="j")


def test_a_name_is_a_weaker_owner_than_a_label(read: Read) -> None:
    """`rank0.log` may hold the output of a launcher: a label of another rank in it ends that reading."""
    owner = Owner(rank=0, certain=False)
    assert ranks(read(f"{ERROR}\n", owner=owner)) == [0]
    assert ranks(read(f"[rank3]: {ERROR}\n{ERROR}\n", owner=owner)) == [3, None]


def test_what_one_log_tells_of_a_process_counts_in_another(read: Read) -> None:
    """NCCL's own file of a process has no rank in its name, the job's output binds it."""
    processes = Processes()
    read("node-b:10:11 [0] NCCL INFO comm 0x2 rank 1 nranks 2 cudaDev 0 - Init COMPLETE\n", processes=processes)
    (event,) = read("Bootstrap : no socket interface found\n", processes=processes, owner=Owner(host="node-b", pid=10))
    assert event.subject == rank(1, host="node-b", job="j")


def test_host_events_have_the_host_of_their_prefix(read: Read) -> None:
    """Kernel lines name the host in the style of syslog; without a name the host is not known."""
    kill = "Out of memory: Killed process 4711 (python) total-vm:4kB, anon-rss:4kB, file-rss:0kB, shmem-rss:0kB\n"
    (named,) = read("Nov 30 20:18:29 node-a kernel: " + kill)
    (unnamed,) = read("[12345.678901] " + kill)
    assert (named.subject, unnamed.subject) == (Subject("host", "node-a", host="node-a"), None)
    assert named.fields["pid"] == 4711
    assert named.unix is not None


def test_a_launcher_is_not_the_worker_it_speaks_of(read: Read) -> None:
    """The label before a launcher's word about a worker is the launcher's own."""
    labelled = "".join(f"{n}: step\n" for n in range(4))
    events = read(labelled + "0: failed (exitcode: -9) local_rank: 1 (pid: 77) of binary: /usr/bin/python3\n")
    assert ranks(events, "worker_failed") == [None]
    assert events[-1].fields["pid"] == 77


LINES = [
    ("node-a:10:11 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer node-c<4000>", 0),
    ("node-b:20:21 [1] transport/net_ib.cc:94 NCCL WARN NET/IB : Got completion with error 12, opcode 1, len 3, vendor err 129", 1),
    (f"[rank3]: {ERROR}", 3),
    ("[rank5]:[E1130 17:05:38.162555850 ProcessGroupNCCL.cpp:632] [Rank 5] NCCL watchdog thread terminated with exception: x", 5),
    (f"[1,7]<stderr>:RuntimeError: {OOM}", 7),
    ("[1,9]<stdout>:step 12 loss 0.5", 9),
    ("node-a:10:11 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM", 0),
    (f"[rank: 11] {ERROR}", 11),
    (f"[Rank 12] ERROR {ERROR}", 12),
    (f"Rank 13: {ERROR}", 13),
    (f"[2025-02-23 11:40:08 TP14] Capture cuda graph failed: {ERROR}", 14),
    (f"(Worker_TP15 pid=77) ERROR 04-29 10:04:15 [multiproc_executor.py:772] {ERROR}", 15),
    (f"[1,mpirank:16,algo-1]<stderr>:{ERROR}", 16),
    (BAR, -1),
]  # fmt: skip
KNOWN = (
    "node-a:10:11 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 commId 0x5 - Init COMPLETE\n"
    "node-b:20:21 [1] NCCL INFO comm 0x2 rank 1 nranks 2 cudaDev 1 busId 2000 commId 0x5 - Init COMPLETE\n"
)


def truth(line: str) -> dict[str, int]:
    """Which rank wrote the messages of the lines above, by message."""
    return {
        "nccl-peer-closed": 0, "nccl-channel": 0, "nccl-ib-completion": 1, "cuda-oom": 7 if "[1,7]" in line else 3,
        "torch-process-down": 5,
    }  # fmt: skip


@pytest.mark.parametrize("first", range(len(LINES)))
@pytest.mark.parametrize("second", range(len(LINES)))
def test_a_line_cut_in_two_by_another_one_blames_nobody_else(read: Read, first: int, second: int) -> None:
    """One line written into another one at every byte: no event is given to a rank that did not print it."""
    (outer, outer_rank), (inner, inner_rank) = LINES[first], LINES[second]
    for at in range(len(outer) + 1):
        log = KNOWN + outer[:at] + inner + "\n" + outer[at:] + "\n"
        for event in read(log)[2:]:
            if event.subject is not None and event.subject.kind == "rank":
                message = str(event.fields["message"])
                owners = {outer_rank, inner_rank} if message in ("nccl-warning", "error-printed") else set()
                owners |= {
                    rank for line, rank in ((outer, outer_rank), (inner, inner_rank)) if _prints(read, line, message)
                }
                assert event.subject.rank in owners, (at, log)


def _prints(read: Read, line: str, message: str) -> bool:
    return any(event.fields["message"] == message for event in read(line + "\n"))


def test_what_follows_on_a_line_is_of_the_same_process(read: Read) -> None:
    """A second message on a line, behind words of the first, is of the line's rank, unless another label stands between."""
    whole = read("[1,3]<stdout>:Epoch 10 finished, running evaluation on 500 images\n")
    torn = read("[rank1]: Epoch 10 finished[rank3]: CUDA out of memory. Tried to allocate 2.00 GiB\n")

    assert {"epoch_ended": [3], "rank_busy": [3]} == {kind: ranks(whole, kind) for kind in ("epoch_ended", "rank_busy")}
    assert [None] == ranks(torn)


def test_srun_labels_cut_in_two_blame_nobody_else(read: Read) -> None:
    """The same with labels that are bare numbers, among whole lines."""
    around = "".join(f"{n:2d}: step {n} of the training loop\n" for n in range(16))
    outer, inner = "11: a line of text, train.py:3", f" 5: RuntimeError: {OOM}"
    for a, b in ((outer, inner), (inner, outer)):
        for at in range(len(a) + 1):
            found = ranks(read(around + a[:at] + b + "\n" + a[at:] + "\n" + around))
            assert set(found) <= {5, None}, (at, found)


@given(st.binary(max_size=200) | st.sampled_from(EXAMPLES).map(str.encode), st.integers(0, 200))
@settings(max_examples=300)
def test_any_text_has_a_prefix(text: bytes, at: int) -> None:
    """Reading a prefix never fails, never reads into the message, and ends at it when all of it parses."""
    prefix = read_prefix(text, min(at, len(text)))
    assert prefix.end <= min(at, len(text))
    assert not prefix.whole or prefix.end == min(at, len(text))
    assert read_labels(text).content <= len(text)
