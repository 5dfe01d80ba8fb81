"""Will the job run out of memory? GPU, host, cgroup and /dev/shm."""

from __future__ import annotations

from aidiag.grafana.panel import Panel, Query, Row

ROW = Row(
    "Memory",
    (
        Panel(
            "GPU memory in use, fullest five",
            "Share of a GPU's memory that all processes hold.",
            "timeseries",
            "percentunit",
            (
                Query(
                    "topk(5, max by (node, gpu) (aidiag_gpu_memory_used_bytes / aidiag_gpu_memory_total_bytes"
                    ' and on (instance) aidiag_rank_up{job_id="$job_id"}))',
                    "{{node}} GPU {{gpu}}",
                ),
            ),
        ),
        Panel(
            "GPU memory held by others",
            "Memory that processes outside the job hold on its GPUs.",
            "timeseries",
            "bytes",
            (
                Query(
                    "topk(5, max by (node, gpu) (aidiag_gpu_memory_foreign_bytes"
                    ' and on (instance) aidiag_rank_up{job_id="$job_id"}))',
                    "{{node}} GPU {{gpu}}",
                ),
            ),
        ),
        Panel(
            "Torch allocator, fullest rank",
            "Memory of the rank that holds most: what tensors hold, what the allocator has reserved, the highest so far. "
            "Reserved far above allocated is fragmentation.",
            "timeseries",
            "bytes",
            (
                Query('max(aidiag_torch_memory_allocated_bytes{job_id="$job_id"})', "allocated"),
                Query('max(aidiag_torch_memory_reserved_bytes{job_id="$job_id"})', "reserved"),
                Query('max(aidiag_torch_memory_peak_bytes{job_id="$job_id"})', "peak"),
            ),
        ),
        Panel(
            "Memory of each rank, largest five",
            "Resident host memory of a rank and its loader workers.",
            "timeseries",
            "bytes",
            (
                Query(
                    'topk(5, max by (rank) (aidiag_rank_resident_memory_bytes{job_id="$job_id"}))',
                    "rank {{rank}}",
                ),
            ),
            width=6,
        ),
        Panel(
            "Memory against the cgroup's limit, fullest five",
            "Share of its memory limit that a rank's cgroup uses. At 100 % the kernel kills a process.",
            "timeseries",
            "percentunit",
            (
                Query(
                    'topk(5, max by (rank) (aidiag_rank_memory_used_bytes{job_id="$job_id"}'
                    ' / aidiag_rank_memory_limit_bytes{job_id="$job_id"}))',
                    "rank {{rank}}",
                ),
            ),
            width=6,
        ),
        Panel(
            "Host memory available, lowest five",
            "Share of the host's memory that can be had without swapping.",
            "timeseries",
            "percentunit",
            (
                Query(
                    "bottomk(5, max by (node) (aidiag_host_memory_available_bytes / aidiag_host_memory_total_bytes"
                    ' and on (instance) aidiag_rank_up{job_id="$job_id"}))',
                    "{{node}}",
                ),
            ),
            width=6,
        ),
        Panel(
            "/dev/shm free, lowest five",
            "Free share of /dev/shm, through which loader workers and NCCL pass data.",
            "timeseries",
            "percentunit",
            (
                Query(
                    "bottomk(5, max by (node) (aidiag_host_shm_available_bytes / aidiag_host_shm_size_bytes"
                    ' and on (instance) aidiag_rank_up{job_id="$job_id"}))',
                    "{{node}}",
                ),
            ),
            width=6,
        ),
    ),
)
