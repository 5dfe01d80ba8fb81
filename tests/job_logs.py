"""Logs of jobs, made: training, start-up, every phrase that frightens and means nothing, and failures with their victims."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

RANKS = 64
FAULT_EVERY = 2_000


def training(number: int, chance: random.Random) -> str:
    """A line as training programs print it."""
    loss, rate = chance.random(), 1000 * chance.random()
    match chance.randrange(4):
        case 0:
            return f"[rank{number % 8}]: step {number} loss {loss:.4f} lr 3.0e-04 throughput {rate:.1f} tokens/s memory 45.3 GiB"
        case 1:
            return f"2026-11-30 20:17:36,{number % 1000:03d} INFO trainer.py:{number % 300} epoch {number // 1000} batch {number} time {loss:.3f}s data {loss / 10:.3f}s"
        case 2:
            return f"node-a:{1000 + number % 8}:{2000 + number % 8} [{number % 8}] NCCL INFO AllReduce: opCount {number:x} sendbuff 0x7f{number:09x} count {number * 16} datatype 7 op 0 root 0 comm 0x55d1c0 [nranks=8]"
        case _:
            return f"Epoch {number // 100}: {number % 100}% |{'#' * (number % 40)}| {number}/100000 [00:12<00:34, 12.3it/s, loss={loss:.3f}]"


def fault(number: int) -> str:
    """A line that must be found."""
    if number % 2:
        return f"[rank{number % RANKS}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.15 GiB of which 815.06 MiB is free. Process {number} has 30.02 GiB memory in use. Including non-PyTorch memory, this process has 48.31 GiB memory in use. Of the allocated memory 45.20 GiB is allocated by PyTorch, and 1.29 GiB is reserved by PyTorch but unallocated."
    return f"node-b:{number}:77 [0] transport/net_ib.cc:94 NCCL WARN NET/IB : Got completion from peer 192.0.2.3<45123> with error 12, opcode 0, len 0, vendor err 129"


def fault_fields(number: int) -> dict[str, object]:
    """What must be known of it."""
    if number % 2:
        gib = 1 << 30
        return {
            "gpu": 1, "tried_bytes": 2 * gib, "capacity_bytes": round(79.15 * gib), "free_bytes": round(815.06 * (1 << 20)),
            "process_bytes": round(48.31 * gib), "allocated_bytes": round(45.2 * gib), "unallocated_bytes": round(1.29 * gib),
            "other_pid": number, "other_bytes": round(30.02 * gib),
        }  # fmt: skip
    return {"host": "node-b", "pid": number, "status": 12, "vendor_error": 129}


def start_up(generation: int) -> Iterator[str]:
    """What 64 ranks on 8 hosts print at the start of one communicator."""
    for rank in range(RANKS):
        host, device = rank // 8, rank % 8
        prefix = f"node-{host}:{10000 + 100 * generation % 50000 + device}:{20000 + device} [{device}] NCCL INFO "
        comm = f"comm 0x55d1c0a0 rank {rank} nranks 64 cudaDev {device} nvmlDev {device} busId 3b000 commId 0x9a{generation:06x}"
        yield prefix + "Bootstrap : Using eth0:10.0.0.1<0>"
        yield prefix + "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>"
        yield prefix + "Using non-device net plugin version 0"
        yield prefix + "Using network IB"
        yield prefix + "NCCL_IB_HCA set by environment to mlx5"
        yield prefix + comm + " - Init START"
        yield prefix + f"Setting affinity for GPU {device} to ffffffff"
        yield prefix + f"NVLS multicast support is not available on dev {device}"
        for channel in range(24):
            yield prefix + f"Channel {channel:02d}/24 :    0   1   2   3   4   5   6   7"
        yield prefix + "Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->-1 [2] 1/-1/-1->0->-1 [3] 1/-1/-1->0->-1"
        yield prefix + "P2P Chunksize set to 131072"
        for channel in range(24):
            there = f"{(device + 1) % 8}"
            yield (
                prefix + f"Channel {channel:02d}/0 : {rank}[{device}] -> {(rank + 1) % 64}[{there}] via P2P/CUMEM/read"
            )
            yield prefix + (
                f"Channel {channel:02d}/0 : {rank}[{device}] -> {(rank + 9) % 64}[{there}] [send] via NET/IB/{device}/GDRDMA"
            )
        yield prefix + "Connected all rings"
        yield prefix + "Connected all trees"
        yield prefix + "threadThresholds 8/8/64 | 512/8/64 | 512 | 512"
        yield prefix + "24 coll channels, 0 collnet channels, 0 nvls channels, 32 p2p channels, 2 p2p channels per peer"
        yield prefix + comm + " - Init COMPLETE"


_NCCL = "node-a:1001:2001 [1] NCCL INFO "

HARMLESS = (
    _NCCL + "NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.",
    _NCCL + "ENV/Plugin: Could not find: libnccl-env.so",
    _NCCL + "TUNER/Plugin: Could not find: libnccl-tuner.so libnccl-net.so. Using internal tuner plugin.",
    _NCCL + "PROFILER/Plugin: Could not find: libnccl-profiler.so.",
    _NCCL + "Failed to find ncclNetPlugin_v8 symbol.",
    _NCCL + "NET/Plugin: Failed to find ncclCollNetPlugin_v8 symbol.",
    _NCCL + "NET/IB : Failed to open mlx5dv symbols. Advance features like CX-8 Direct-NIC will be disabled.",
    _NCCL + "NET/OFI Could not load libgdrapi.so",
    _NCCL + "NET/OFI NCCL_OFI_TUNER is not available for platform : p4d.24xlarge, Fall back to NCCL's tuner",
    _NCCL + "RAS failed to establish a client listening socket at 127.0.0.1<28028>",
    _NCCL + "Continuing in spite of a RAS initialization error",
    _NCCL + "socketFinalizeAccept: peer 10.0.0.9<33412> closed before magic handshake, discarding",
    _NCCL + "NVLS multicast support is not available on dev 1",
    _NCCL + "MNNVL busId 0x1b000 fabric UUID 0.0 cliqueId 0x0 state 3 healthMask 0x0",
    _NCCL + "NCCL_IGNORE_CPU_AFFINITY set by environment to 0.",
    _NCCL + "NCCL_IB_TIMEOUT set by environment to 22.",
    _NCCL + "NCCL_IB_RETRY_CNT set by environment to 7.",
    _NCCL + "comm 0x55d1c0a0 rank 1 nranks 8 cudaDev 1 busId 3b000 - Abort COMPLETE",
    _NCCL + "comm 0x55d1c0a0 rank 1 nranks 8 cudaDev 1 busId 3b000 - Destroy COMPLETE",
    "[W1130 20:17:36.000000000 socket.cpp:752] [c10d] The client socket cannot be initialized to connect to [node-a]:29500 (errno: 97 - Address family not supported by protocol).",
    "[W1130 20:17:36.000000000 socket.cpp:464] [c10d] The server socket cannot be initialized on [::]:29500 (errno: 97 - Address family not supported by protocol).",
    "[W1130 20:17:36.000000000 ProcessGroupNCCL.cpp:4561] [PG ID 0 PG GUID 0 Rank 1] using GPU 1 to perform barrier as devices used by this process are currently unknown. This can potentially cause a hang if this rank to GPU mapping is incorrect. Specify device_ids in barrier() to force use of a particular device, or call init_process_group() with a device_id.",
    "[W1130 20:17:36.000000000 Utils.hpp:136] Warning: Environment variable NCCL_BLOCKING_WAIT is deprecated; use TORCH_NCCL_BLOCKING_WAIT instead (function operator())",
    "[W1130 20:17:36.000000000 Utils.hpp:112] Warning: Environment variable NCCL_ASYNC_ERROR_HANDLING is deprecated; use TORCH_NCCL_ASYNC_ERROR_HANDLING instead",
    "[I1130 20:17:36.000000000 ProcessGroupNCCL.cpp:852] [Rank 1] ProcessGroupNCCL environments: NCCL version: 2.27.3, TORCH_NCCL_ASYNC_ERROR_HANDLING: 3, TORCH_NCCL_DUMP_ON_TIMEOUT: 1, TORCH_NCCL_DESYNC_DEBUG: 0, TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC: 480, TORCH_NCCL_TRACE_BUFFER_SIZE: 2000",
    "[rank1]:[W1130 20:17:36.000000000 ProcessGroupNCCL.cpp:1538] Warning: WARNING: destroy_process_group() was not called before program exit, which can leak resources. For more info, please see https://pytorch.org/docs/stable/distributed.html#shutdown (function operator())",
    "[W1130 20:17:36.000000000 CUDAGraph.cpp:145] Warning: Waiting for pending NCCL work to finish before starting graph capture. (function operator())",
    "[W1130 20:17:36.000000000 reducer.cpp:1500] Warning: find_unused_parameters=True was specified in DDP constructor, but did not find any unused parameters in the forward pass. (function operator())",
    "W1130 20:17:36.000000 4711 torch/distributed/run.py:793] Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded",
    "/opt/env/lib/python3.11/site-packages/torch/utils/data/dataloader.py:557: UserWarning: This DataLoader will create 16 worker processes in total. Our suggested max number of worker in current system is 8, which is smaller than what this DataLoader is going to create. Please be aware that excessive worker creation might get DataLoader running slow or even freeze, lower the worker number to avoid potential slowness/freeze if necessary.",
    "huggingface/tokenizers: The current process just got forked, after parallelism has already been used. Disabling parallelism to avoid deadlocks...",
    "2026-11-30 20:17:36.0 E tensorflow/stream_executor/cuda/cuda_blas.cc:2981] Unable to register cuBLAS factory: Attempting to register factory for plugin cuBLAS when one has already been registered",
    "2026-11-30 20:17:36.0 W tensorflow/compiler/tf2tensorrt/utils/py_utils.cc:38] TF-TRT Warning: Could not find TensorRT",
    "2026-11-30 20:17:36.0 I tensorflow/core/platform/cpu_feature_guard.cc:182] This TensorFlow binary is optimized to use available CPU instructions in performance-critical operations.",
    "UserWarning: The given NumPy array is not writable, and PyTorch does not support non-writable tensors.",
    "UserWarning: None of the inputs have requires_grad=True. Gradients will be None",
    "UserWarning: Detected call of `lr_scheduler.step()` before `optimizer.step()`.",
    "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0",
    "[2026-11-30 20:17:36,000] [INFO] [loss_scaler.py:190:update_scale] [deepspeed] OVERFLOW! Rank 1 Skipping step. Attempted loss scale: 65536, reducing to 32768",
    "[2026-11-30 20:17:36,000] [WARNING] [stage3.py:2069:step] 1 pytorch allocator cache flushes since last step. this happens when there is high memory pressure and is detrimental to performance.",
    "[2026-11-30 20:17:36,000] [WARNING] [runner.py:202:fetch_hostfile] Unable to find hostfile, will proceed with training with local resources only.",
    " [WARNING]  async_io requires the dev libaio .so object and headers but these were not found.",
    " [WARNING]  sparse_attn requires a torch version >= 1.5 and < 2.0 but detected 2.7",
    "INFO: error_if_nonfinite=False, detect_anomaly=False, nccl_timeout=1800, on_error=continue, max_restarts=3",
    "INFO: Watchdog started with a timeout of 1800000 ms; heartbeat timeout 480 s; dump on timeout enabled",
    "INFO: evaluation of 'RuntimeError: CUDA out of memory' as a class label: accuracy 0.93",
    "sample 17: \"My training died with NCCL error: unhandled system error. What should I do?\" -> \"Set NCCL_DEBUG=INFO\"",
    "test_out_of_memory_is_reported PASSED",
    "checkpoint saved to /ckpt/connection_refused_study/step_2000 (no errors, 0 failures, 0 timeouts)",
    "errors=0 failed=0 killed=0 oom_kill=0 xid_errors=0 ecc_errors=0 symbol_errors=0 link_downed=0",
    "retrying download (attempt 1 of 5): HTTPSConnectionPool(host='hub.example.org', port=443): Read timed out. (read timeout=10)",
    "wandb: WARNING Symlinked 0 files into the W&B run directory, call wandb.save again to sync new files.",
    "wandb: Network error (ConnectionError), entering retry loop.",
    "srun: job 4711 queued and waiting for resources",
    "srun: job 4711 has been allocated resources",
    "slurmstepd: task/cgroup: _memcg_initialize: job: alloc=515000MB mem.limit=515000MB memsw.limit=unlimited",
    "Normal  Pulled  3m  kubelet  Container image \"registry.example.org/train:1\" already present on machine",
    "Normal  Killing  1m  kubelet  Stopping container trainer",
    "kernel: mlx5_core 0000:3b:00.0: mlx5_pcie_event:301:(pid 4711): Detected insufficient power on the PCIe slot (25W).",
    "kernel: mlx5_core 0000:3b:00.0 eth0: Link up",
    "kernel: nvidia-nvlink: Nvlink Core is being initialized, major device number 510",
    "kernel: NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 09:35:42 UTC 2024",
    "kernel: perf: interrupt took too long (2501 > 2500), lowering kernel.perf_event_max_sample_rate to 79750",
    "kernel: TCP: request_sock_TCP: Possible SYN flooding on port 29500. Sending cookies.  Check SNMP counters.",
    "Exception ignored in: <function _releaseLock at 0x7f0000000000>",
    "Some weights of BertForMaskedLM were not initialized from the model checkpoint at bert-base-uncased and are newly initialized",
    "You should probably TRAIN this model on a down-stream task to be able to use it for predictions and inference.",
    "Token indices sequence length is longer than the specified maximum sequence length for this model (600 > 512). Running this sequence through the model will result in indexing errors",
    "using `use_cache=True` is incompatible with gradient checkpointing. Setting `use_cache=False`",
    "[2026-11-30 20:17:36,000] INFO: Early stopping: val_loss did not improve; stopping training normally. Goodbye.",
    "Training finished. Exiting with code 0. Shutting down workers, closing connections, terminating heartbeat thread.",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Planted:
    """A failure: what it prints, the one cause of it, and the ranks to blame."""

    cause: str
    lines: tuple[str, ...]
    ranks: tuple[int, ...] = ()


def _timeouts(culprit: int) -> tuple[str, ...]:
    """Other ranks of 8 wait for one that is gone."""
    return tuple(
        f"[rank{rank}]:[E1130 20:18:{rank + 40}.000000000 ProcessGroupNCCL.cpp:685] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4712, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=600000) ran for 600023 milliseconds before timing out."
        for rank in range(8)
        if rank != culprit
    )


def _closed(culprit: int) -> tuple[str, ...]:
    """Other ranks of 8 see one go."""
    lines: list[str] = []
    for rank in range(8):
        if rank != culprit:
            lines += (
                f"node-a:{1000 + rank}:{2000 + rank} [{rank}] misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer node-a<41234>",
                f"[rank{rank}]: torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:268, remote process exited or there was a network error, NCCL version 2.27.3",
            )
    return tuple(lines)


def _launcher(culprit: int, exit_code: int) -> tuple[str, ...]:
    """The launcher ends the job."""
    signals = (
        f"W1130 20:18:50.000000 100 torch/distributed/elastic/multiprocessing/api.py:897] Sending process {1000 + rank} closing signal SIGTERM"
        for rank in range(8)
        if rank != culprit
    )
    return (
        *signals,
        f"E1130 20:18:51.000000 100 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: {exit_code}) local_rank: {culprit} (pid: {1000 + culprit}) of binary: /opt/env/bin/python",
    )


PLANTED = (
    Planted(
        "oom_capacity",
        (
            "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 3 has a total capacity of 79.15 GiB of which 815.06 MiB is free. Including non-PyTorch memory, this process has 78.31 GiB memory in use. Of the allocated memory 77.20 GiB is allocated by PyTorch, and 0.29 GiB is reserved by PyTorch but unallocated.",
            *_timeouts(3),
            *_launcher(3, 1),
        ),
        (3,),
    ),
    Planted(
        "shm_too_small",
        (
            "node-a:1005:2005 [5] include/shm.h:48 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-Ab3kQp (size 9637888), error: No space left on device (28)",
            *_closed(5),
            *_launcher(5, 1),
        ),
    ),
    Planted(
        "oom_host_killed",
        (
            "[81234.567890] Memory cgroup out of memory: Killed process 1002 (python) total-vm:98765432kB, anon-rss:51234567kB, file-rss:1234kB, shmem-rss:4096kB, UID:1000 pgtables:123456kB oom_score_adj:0",
            *_closed(2),
            *_launcher(2, -9),
        ),
    ),
)  # fmt: skip


def healthy(chance: random.Random, lines: int) -> Iterator[str]:
    """A healthy job: its start, training with a harmless phrase now and then (each of them), its end."""
    yield from start_up(0)
    at = 0
    for number in range(lines):
        yield training(number, chance)
        if number % 97 == 0:
            yield HARMLESS[at % len(HARMLESS)]
            at += 1
