"""Are the hosts and the processes well? CPU, quota, disks, open files, kills."""

from __future__ import annotations

from aidiag.grafana.panel import Panel, Query, Row

ROW = Row(
    "Hosts and processes",
    (
        Panel(
            "CPU of each rank, most five",
            "CPUs that a rank and its loader workers keep busy.",
            "timeseries",
            "suffix: CPUs",
            (
                Query(
                    'topk(5, max by (rank) (rate(aidiag_rank_cpu_seconds_total{job_id="$job_id"}[$__rate_interval])))',
                    "rank {{rank}}",
                ),
            ),
        ),
        Panel(
            "Stopped by the CPU quota, most five",
            "Share of time in which the cgroup's CPU quota kept a rank from running.",
            "timeseries",
            "percentunit",
            (
                Query(
                    "topk(5, max by (rank)"
                    ' (rate(aidiag_rank_cpu_throttled_seconds_total{job_id="$job_id"}[$__rate_interval])))',
                    "rank {{rank}}",
                ),
            ),
        ),
        Panel(
            "CPU of the hosts by mode",
            "CPUs of all hosts of the job, by what they do; idle is left out.",
            "timeseries",
            "suffix: CPUs",
            (
                Query(
                    'sum by (mode) (max by (node, mode) (rate(aidiag_host_cpu_seconds_total{mode!="idle"}'
                    '[$__rate_interval]) and on (instance) aidiag_rank_up{job_id="$job_id"}))',
                    "{{mode}}",
                ),
            ),
            stacked=True,
        ),
        Panel(
            "Free disk, fullest five",
            "Free share of the mounted file systems.",
            "timeseries",
            "percentunit",
            (
                Query(
                    "bottomk(5, max by (node, mount)"
                    " (aidiag_host_filesystem_available_bytes / aidiag_host_filesystem_size_bytes"
                    ' and on (instance) aidiag_rank_up{job_id="$job_id"}))',
                    "{{node}} {{mount}}",
                ),
            ),
        ),
        Panel(
            "Open files against the limit, most five",
            "Share of its limit of open file descriptors that a rank uses.",
            "timeseries",
            "percentunit",
            (
                Query(
                    'topk(5, max by (rank) (aidiag_rank_open_files{job_id="$job_id"}'
                    ' / aidiag_rank_open_files_limit{job_id="$job_id"}))',
                    "rank {{rank}}",
                ),
            ),
        ),
        Panel(
            "Kills and restarts",
            "Kills by the kernel's OOM killer in the ranks' cgroups, and restarts of ranks, since the job began.",
            "timeseries",
            "none",
            (
                Query('sum(max by (rank) (aidiag_rank_oom_kills_total{job_id="$job_id"}))', "OOM kills"),
                Query('sum(max by (rank) (aidiag_rank_restarts_total{job_id="$job_id"}))', "restarts"),
            ),
        ),
        Panel(
            "GPU temperature, hottest five",
            "Core temperature of the GPUs. Near its slowdown temperature a GPU lowers its clocks.",
            "timeseries",
            "celsius",
            (
                Query(
                    "topk(5, max by (node, gpu) (aidiag_gpu_temperature_celsius"
                    ' and on (instance) aidiag_rank_up{job_id="$job_id"}))',
                    "{{node}} GPU {{gpu}}",
                ),
            ),
            width=12,
        ),
        Panel(
            "GPU power, highest five",
            "Power that the GPUs draw. One well below its neighbours waits for something or is held down.",
            "timeseries",
            "watt",
            (
                Query(
                    "topk(5, max by (node, gpu) (aidiag_gpu_power_watts"
                    ' and on (instance) aidiag_rank_up{job_id="$job_id"}))',
                    "{{node}} GPU {{gpu}}",
                ),
            ),
            width=12,
        ),
    ),
)
