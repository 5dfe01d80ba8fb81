"""Whole logs of many programs, to the cause that is named: what ranks wait for, and where the time of steps goes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from aidiag.collectors import registry
from aidiag.diagnose.config import Config
from aidiag.diagnose.incident import diagnose_logs, files_in
from aidiag.diagnose.report.model import Report
from aidiag.diagnose.rulebook import load_rulebook
from aidiag.rules.model import Rule

WATCHDOG = (
    "[rank{rank}]:[E1130 17:05:38.162 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum={sequence}, OpType={operation}, NumelIn={numel}, NumelOut={numel}, Timeout(ms)=600000) ran for 600029 "
    "milliseconds before timing out."
)


def waiting(*ranks: tuple[int, int, str, int]) -> str:
    """The watchdog's lines of ranks: rank, sequence number, operation, number of elements."""
    return "\n".join(
        WATCHDOG.format(rank=rank, sequence=sequence, operation=operation, numel=numel)
        for rank, sequence, operation, numel in ranks
    )


@cache
def rules() -> Sequence[Rule]:
    """The built-in rules."""
    return load_rulebook(registry(), Config()).rules


def report_on(folder: Path, log: str, host: str = "") -> Report:
    """The report on an incident of one log and what was seen on the host."""
    (folder / "job.log").write_text(log + "\n")
    if host:
        (folder / "host.txt").write_text(host + "\n")
    return diagnose_logs(files_in(folder), rules=rules(), registry=registry(), language="en")


ALL_WAIT = [(rank, 99, "ALLREDUCE", 4096) for rank in range(1, 8)]

SICK = {
    "operations differ": ("collective_mismatch", waiting((0, 7, "ALLREDUCE", 10), (1, 7, "BROADCAST", 10), (2, 7, "ALLREDUCE", 10)), ""),
    "sizes differ": ("collective_mismatch", waiting((0, 7, "ALLREDUCE", 10), (1, 7, "ALLREDUCE", 12), (2, 7, "ALLREDUCE", 10)), ""),
    "old watchdog, no numbers": (
        "collective_mismatch",
        ("[E ProcessGroupNCCL.cpp:566] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, TensorShape=[1024], Timeout(ms)=1800000) ran for 1805555 milliseconds before timing out.\n"
        "[E ProcessGroupNCCL.cpp:566] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLGATHER, TensorShape=[4], Timeout(ms)=1800000) ran for 1805556 milliseconds before timing out."),
        "",
    ),
    "an expert was skipped": (
        "collective_mismatch",
        "[rank2]: expert 5: no tokens routed to expert 5, skipping\n" + waiting((0, 40, "_REDUCE_SCATTER_BASE", 64), (1, 40, "_REDUCE_SCATTER_BASE", 64), (2, 42, "ALLREDUCE", 1)),
        "",
    ),
    "DDP verifies": ("collective_mismatch", "[rank1]: RuntimeError: DDP expects same model across all ranks, but Rank 1 has 160 params, while rank 0 has inconsistent 158 params.", ""),
    "MPI truncates": ("collective_mismatch", "[node-a:01201] *** An error occurred in MPI_Allreduce\n[node-a:01201] *** MPI_ERR_TRUNCATE: message truncated", ""),
    "batches are counted": ("uneven_inputs", "[rank0]: len(train_loader) = 313\n[rank1]: len(train_loader) = 312\n" + waiting((0, 900, "ALLREDUCE", 4096)), ""),
    "an epoch ended on one": ("uneven_inputs", "[rank3]: epoch 2 finished, evaluating\n" + waiting((0, 900, "ALLREDUCE", 4096), (1, 900, "ALLREDUCE", 4096), (3, 901, "ALLGATHER", 1)), ""),
    "a stream of unknown length": ("uneven_inputs", "Epoch 0: | 99/? [00:41<00:00,  2.4it/s]\n" + waiting((0, 900, "ALLREDUCE", 4096), (3, 903, "ALLGATHER", 1)), ""),
    "torch's Join": ("uneven_inputs", "[rank1]: RuntimeError: Detected at least one rank that exhausted inputs. Throwing across all ranks.", ""),
    "rank 0 prepares": ("slow_rank_section", "Running tokenizer on dataset:  38%|###8      | 32066/85249 [32:12<53:25, 16.59ba/s]\n" + waiting(*ALL_WAIT), ""),
    "rank 0 saves": ("slow_rank_section", "[rank0]: Saving model checkpoint to /data/out/checkpoint-500\n" + waiting(*ALL_WAIT), ""),
    "rank 0 downloads": ("slow_rank_section", "[rank0]: Downloading shards:  12%|#2        | 1/8 [10:00<1:10:00, 600s/it]\n" + waiting(*ALL_WAIT), ""),
    "one enqueued less": (
        "slow_rank_section",
        waiting((0, 50, "ALLREDUCE", 9), (1, 50, "ALLREDUCE", 9), (2, 50, "ALLREDUCE", 9))
        + "\n[rank3]:[E1130 17:05:38.163 ProcessGroupNCCL.cpp:1683] [PG ID 0 PG GUID 0(default_pg) Rank 3] Received a dump signal due to a collective timeout from  rank 0 and we will try our best to dump the debug info. Last enqueued NCCL work: 49, last completed NCCL work: 49.",
        "",
    ),
    "timm waits for data": (
        "util_input_bound",
        "\n".join(f"Train: 0 [{step:4d}/1251 (  4%)]  Loss: 6.94 (6.95)  Time: 1.345s,  742.12/s  (1.402s,  636.82/s)  LR: 1.000e-05  Data: 1.110 (1.152)" for step in range(0, 500, 50)),
        "",
    ),
    "mmengine waits for data": (
        "util_input_bound",
        "\n".join(f"11/30 20:17:36 - mmengine - INFO - Epoch(train)  [1][{step}/3000]  lr: 1.0e-02  eta: 1 day, 2:03:04  time: 1.2512  data_time: 0.9310  memory: 12345  loss: 2.1" for step in (50, 100, 150, 200)),
        "",
    ),
    "detectron2 waits for data": (
        "util_input_bound",
        "\n".join(f"[11/30 20:17:36 d2.utils.events]:  eta: 1:02:03  iter: {step}  total_loss: 1.2  time: 1.3512  last_time: 1.36  data_time: 1.0011  last_data_time: 0.9  lr: 0.001" for step in (19, 39, 59)),
        "",
    ),
    "torchvision's references wait for data": (
        "util_input_bound",
        "\n".join(f"Epoch: [0]  [{step:4d}/1000]  eta: 0:10:00  lr: 0.0001  loss: 4.1 (4.5)  time: 3.5010  data: 2.9011  max mem: 5000" for step in (10, 20, 30, 40)),
        "",
    ),
    "Paddle's reader is slow": (
        "util_input_bound",
        "\n".join(f"[2026/11/30 20:17:36] ppcls INFO: [Train][Epoch 1/100][Iter: {step}/1000]lr: 0.1, loss: 6.9, avg_reader_cost: 1.90100 s, avg_batch_cost: 2.10021 s, ips: 30.4" for step in (10, 20, 30)),
        "",
    ),
    "a monitored barrier names a rank": ("slow_rank_section", "RuntimeError: [Rank 0]: Ranks 3 failed to pass monitoredBarrier in 600000 ms", ""),
    "datasets map while gloo waits": (
        "slow_rank_section",
        ("Map (num_proc=8):  43%|####3     | 430000/1000000 [29:10<36:05, 190.01 examples/s]\n"
        "[rank1]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete"),
        "",
    ),
    "TensorFlow's profiler": ("util_input_bound", "Your program is HIGHLY input-bound because 85.1% of the total step time sampled is waiting for input. Therefore, you should first focus on reducing the input time.", ""),
    "torch's profile is full of waits": (
        "util_host_sync",
        ("-------------------------  ------------  ------------\n"
        "                     Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls\n"
        "               aten::item         0.52%      12.10ms        71.30%        1.661s     274.8us          6044\n"
        "    cudaStreamSynchronize        68.20%        1.590s        68.20%        1.590s     263.1us          6044"),
        "",
    ),
    "nvprof sees launches only": ("util_small_batch", "      API calls:   97.11%  90.5692s   1540000  58.811us  6.5610us  9.6723ms  cuLaunchKernel", ""),
    "a cgroup is throttled": (
        "util_cpu_starved",
        "Epoch: [0][ 100/5005]\tTime  2.361 (  2.402)\tData  2.000 (  2.031)\tLoss 2.9e+00 (3.1e+00)",
        "$ cat /sys/fs/cgroup/cpu.stat\nnr_periods 41020\nnr_throttled 38211\nthrottled_usec 99911112",
    ),
    "a mask of two": ("util_cpu_starved", "$ grep Cpus_allowed_list /proc/77/status\nCpus_allowed_list:\t0-1\n$ nproc --all\n96", ""),
    "DeepSpeed reduces": (
        "comm_bound",
        "\n".join(f"[2026-11-30 20:17:3{n},100] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | fwd: 210.11 | bwd: 1500.20 | bwd_inner: 430.10 | bwd_allreduce: 1569.90 | step: 22.10" for n in range(4)),
        "",
    ),
    "Megatron saves": ("checkpoint_stall", "    save-checkpoint ................................: (900101.12, 900210.20)", ""),
    "a thread keeps the lock": ("gil_held", "[rank0]:[E1130 17:05:38.163 ProcessGroupNCCL.cpp:1396] [PG ID 0 PG GUID 0(default_pg) Rank 0] Could not acquire GIL within 300 ms on exit, possible GIL induced hang", ""),
    "one rank computes longer": ("straggler", "\n".join(f"rank {rank}: compute {1.9 if rank == 5 else 1.2} s" for rank in range(8)), ""),
    "Horovod, and a rank has finished": (
        "uneven_inputs",
        ("[1,3]<stdout>:Training finished after 312 steps\n"
        "[1,0]<stderr>:horovod.common.exceptions.HorovodInternalError: Horovod has been shut down. This was caused by an exception on one of the ranks or an attempt to allreduce, allgather or broadcast a tensor after one of the ranks finished execution."),
        "",
    ),
    "NeMo names a straggler": ("straggler", "[NeMo W 2026-11-30 20:17:36 straggler_det_callback:200] STRAGGLER DETECTION WARNING: Some GPUs have worse relative performance. Affected ranks: [3]", ""),
}  # fmt: skip


@pytest.mark.parametrize(("cause", "log", "host"), SICK.values(), ids=SICK.keys())
def test_the_cause_is_named(tmp_path: Path, cause: str, log: str, host: str) -> None:
    """What a program prints in its own words leads to the cause, with evidence and a remedy."""
    first = report_on(tmp_path, log, host).findings[0]
    assert first.cause == cause
    assert first.evidence
    assert first.remedy


HEALTHY = {
    "the first steps fill caches": "\n".join(
        f"Epoch: [0][{step:4d}/5005]\tTime  {0.36 if step else 31.0:.3f} (  {0.36 + 30 / (step + 1):.3f})\tData  {0.001 if step else 30.1:.3f} (  {30 / (step + 1):.3f})\tLoss 6.9 (6.9)"
        for step in range(0, 60, 10)
    ),
    "little data time": "\n".join(f"time: 0.5512  data_time: 0.0310  memory: 12345  loss: {step}" for step in range(9)),
    "evaluation and saving within the time": "\n".join(
        f"***** Running Evaluation *****\nSaving model checkpoint to /out/checkpoint-{step}\n{{'loss': 0.5, 'learning_rate': 1e-05, 'epoch': {step / 1000}}}"
        for step in range(100, 900, 100)
    ),
    "timers of Megatron": "    batch-generator ................................: (0.21, 21.52)\n    forward-backward ...............................: (3100.21, 3101.02)\n"
    "    all-grads-sync .................................: (30.11, 40.40)\n iteration      200/  500000 | consumed samples:        51200 | elapsed time per iteration (ms): 3211.4 | lm loss: 2.1",
    "DeepSpeed's breakdown": "\n".join(
        "[2026-11-30 20:17:36,100] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | fwd: 410.11 | bwd: 1000.20 | bwd_inner: 830.10 | bwd_allreduce: 169.90 | step: 22.10"
        for _ in range(5)
    ),
    "a profile of large kernels": "      aten::convolution_backward         2.52%      12.10ms        41.30%        1.661s     274.8us          6044\n"
    "                cudaLaunchKernel        11.20%        0.590s        11.20%        0.590s       4.1us        160440\n"
    "           cudaDeviceSynchronize        28.20%        1.590s        28.20%        1.590s     530.1ms             3",
    "advice of torch and torchrun": "*****************************************\nSetting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded\n"
    "UserWarning: This DataLoader will create 8 worker processes in total. Our suggested max number of worker in current system is 6, which is smaller than what this DataLoader is going to create.\n"
    "step 10 | 0.41 s/it | gpu util 97 %",
    "ends and bars of all ranks": "\n".join(f"[rank{rank}]: epoch 3 finished, 312 steps" for rank in range(8))
    + "\nEpoch 9, Rank 7, world_size 8: 35batch [00:03, 10.54batch/s]\nEpoch 9, Rank 2, world_size 8: 34batch [00:03, 10.54batch/s]",
    "quick checkpoints": "\n".join(f"2026-11-30 20:{minute}:00,100 INFO checkpoint saved in 41.2 s" for minute in range(10, 60, 20)),
    "tensorpack's queue is full": "[1130 20:17:36 @monitor.py:467] QueueInput/queue_size: 49.812",
    "not input-bound": "Your program is NOT input-bound because only 0.1% of the total step time sampled is waiting for input.",
    "all ranks compute alike": "\n".join(f"rank {rank}: compute 1.{rank} s" for rank in range(2)),
    "a server with room": "INFO 04-21 11:05:10 [loggers.py:87] Engine 000: Avg prompt throughput: 0.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.1%, Prefix cache hit rate: 12.0%",
    "different numbers that mean no harm": "[rank0]: num_batches: 313\n[rank1]: num_batches: 312\nepoch 1 finished",
    "words in a text": "user: my job prints 'Watchdog caught collective operation timeout' and then straggler detection says rank 3 is slow, GPU utilization is low, what do I do?",
    "binding of a fast job": "[node-a:11202] MCW rank 0 bound to socket 0[core 0[hwt 0-1]]: [BB/../../..][../../../..]\nstep 10 loss 2.1 0.31 s/it",
}  # fmt: skip


@pytest.mark.parametrize("log", HEALTHY.values(), ids=HEALTHY.keys())
def test_a_healthy_log_stays_quiet(tmp_path: Path, log: str) -> None:
    """Lines of training with scary words give no warning."""
    loud = [finding for finding in report_on(tmp_path, log).findings if finding.severity != "info"]
    assert [(finding.cause, finding.summary) for finding in loud] == []


def test_a_save_with_steps_after_it_is_not_to_blame(tmp_path: Path) -> None:
    """Where training went on after the checkpoint, the timeout has another cause."""
    steps = "\n".join(f"{{'loss': 0.{step}, 'learning_rate': 1e-05}}" for step in range(9))
    found = report_on(
        tmp_path, "[rank0]: Saving model checkpoint to /out/checkpoint-500\n" + steps + "\n" + waiting(*ALL_WAIT)
    )
    assert [one.rule for one in found.findings if one.rule == "slow_rank_section"] == []


def test_ranks_that_differ_are_named(tmp_path: Path) -> None:
    """The one that waits in another call than most is the culprit."""
    found = report_on(tmp_path, waiting((0, 7, "ALLREDUCE", 10), (1, 7, "BROADCAST", 10), (2, 7, "ALLREDUCE", 10)))
    assert found.findings[0].culprit is not None
    assert found.findings[0].culprit.ranks == (1,)


def test_groups_are_compared_apart(tmp_path: Path) -> None:
    """Ranks that wait in different groups for different operations say nothing against each other."""
    log = (
        "[rank0]:[E1130 17:05:38.162 ProcessGroupNCCL.cpp:632] [PG ID 1 PG GUID 5 Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600001 milliseconds before timing out.\n"
        "[rank1]:[E1130 17:05:38.162 ProcessGroupNCCL.cpp:632] [PG ID 2 PG GUID 9 Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=_ALLGATHER_BASE, NumelIn=4, NumelOut=8, Timeout(ms)=600000) ran for 600001 milliseconds before timing out."
    )
    assert "collective_mismatch" not in [one.cause for one in report_on(tmp_path, log).findings]
