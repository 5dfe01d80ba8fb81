"""Memory, file descriptors, devices of processes, locks and loader workers."""

from __future__ import annotations

from aidiag.collectors.logs.kinds.kind import kind
from aidiag.collectors.signal import EventKind

KINDS: tuple[EventKind, ...] = (
    kind("rank", "host_allocation_failed", "The host refused memory to a process", "tried_bytes error"),
    kind("rank", "oom_recovered", "A program goes on after it ran out of memory", "batch"),
    kind(
        "rank",
        "cuda_out_of_memory",
        "GPU memory ran out",
        "gpu tried_bytes capacity_bytes free_bytes allocated_bytes reserved_bytes cached_bytes unallocated_bytes"
        " process_bytes allowed_bytes other_pid other_bytes layer error",
    ),
    kind("rank", "memory_reading", "A program told how much memory it uses", "of bytes percent"),
    kind(
        "host", "host_memory_used", "The memory of a host that is in use", "used_bytes total_bytes used total percent"
    ),
    kind("host", "memory_limit", "The memory limit of a container or job", "bytes"),
    kind("rank", "gpu_memory_occupied", "A GPU was not empty when a program started", "free_gib capacity_gib layer"),
    kind("rank", "gpu_process", "A process on a GPU", "gpu pid process bytes gone"),
    kind("rank", "gpu_holder", "A process has a GPU's device open", "gpu pid process"),
    kind("host", "gpu_processes_none", "nvidia-smi sees no process on the GPUs", ""),
    kind("host", "process_defunct", "A process is a zombie", ""),
    kind("host", "container_ended", "How a container ended, where it was not for memory", "how"),
    kind("job", "memory_growth_noted", "Somebody noted in which part of a run memory grows", "where"),
    kind("job", "standstill_noted", "Somebody noted that a job stood still", ""),
    kind("rank", "graph_kept", "Code keeps the graph of a loss from step to step", "code how"),
    kind("rank", "run_section", "A program entered training, evaluation or prediction", "section"),
    kind("host", "memory_killed", "A manager killed a worker since the memory of its node ran out", "node pid count"),
    kind("rank", "actor_died", "A worker process of Ray was gone without a word", "pid exit_detail"),
    kind("rank", "loader_worker_killed", "A loader worker process died", "pid pids signal exit_code"),
    kind("rank", "loader_worker_crashed", "A loader worker told of its own crash", "signal"),
    kind("rank", "loader_timeout", "A loader gave no batch in its time", "seconds"),
    kind("rank", "open_files_exhausted", "A process has no file descriptor left", "layer error"),
    kind("rank", "open_files_limit", "How many files a process may open", "limit"),
    kind("host", "container_oom_killed", "A container was killed at its memory limit", "container exit_code"),
    kind("host", "task_out_of_memory", "The scheduler saw tasks killed at their memory limit", "node tasks step kills"),
    kind("rank", "duplicate_gpu", "Two ranks use one GPU", "rank_a rank_b pci_bus_id"),
    kind("rank", "device_wrong", "A process asked for a device that it does not have", "error device layer"),
    kind("rank", "cuda_error", "A CUDA call failed", "layer error code"),
    kind("rank", "cuda_assertion", "A kernel found an index or value out of range", "error kernel"),
    kind("rank", "fork_with_cuda", "A forked process used CUDA that its parent had started", "error"),
    kind("rank", "forked_with_threads", "A process with threads was forked", "what"),
    kind("rank", "stack_seen", "Where a thread stands, as a debugger or faulthandler told", "place function"),
    kind("rank", "lock_waited", "A process waits for a lock file", "path seconds minutes holder tool"),
    kind("host", "lock_file_seen", "A lock file lies in a folder", "path bytes"),
    kind("rank", "extension_build", "A process loads an extension that it may have to build", "path done"),
)
