"""Why is the job slow? Where the time of a step goes, and which rank differs.

Step time is the same on every rank of a synchronous job, so ranks are compared by own time: the step without waiting
for late peers and without communication on the wire.
"""

from __future__ import annotations

from aidiag.grafana.panel import Panel, Query, Row, State

STEPS = 'rate(aidiag_steps_total{job_id="$job_id"}[$__rate_interval])'
STEP_SECONDS = 'rate(aidiag_step_seconds_total{job_id="$job_id"}[$__rate_interval])'
LOADER_SECONDS = 'rate(aidiag_loader_wait_seconds_total{job_id="$job_id"}[$__rate_interval])'


def _phase(matcher: str = "") -> str:
    return f'rate(aidiag_step_phase_seconds_total{{job_id="$job_id"{matcher}}}[$__rate_interval])'


ROW = Row(
    "Why slow",
    (
        Panel(
            "Where the step's time goes",
            "Share of each phase in the step: of each phase, the median over the ranks. "
            "Where all ranks are on one host, comm_late_peer is waiting for another rank and comm_wire communication itself; "
            "elsewhere comm is both.",
            "timeseries",
            "percentunit",
            (
                Query(
                    f"quantile by (phase) (0.5, {_phase()} / on (job_id, rank) group_left () {STEP_SECONDS})",
                    "{{phase}}",
                ),
            ),
            width=12,
            stacked=True,
        ),
        Panel(
            "Step time",
            "Wall time of a step: the median rank and the slowest one.",
            "timeseries",
            "s",
            (
                Query(f"quantile(0.5, {STEP_SECONDS} / {STEPS})", "median rank"),
                Query(f"max({STEP_SECONDS} / {STEPS})", "slowest rank"),
            ),
            width=12,
        ),
        Panel(
            "Own time by rank, longest five",
            "Time of a step that a rank spends on its own work. One rank well above the others is a straggler.",
            "timeseries",
            "s",
            (
                Query(
                    "topk(5, sum by (rank) ("
                    + _phase(',phase!~"comm.*"')
                    + " / on (job_id, rank) group_left () "
                    + STEPS
                    + "))",
                    "rank {{rank}}",
                ),
            ),
            width=12,
        ),
        Panel(
            "Waiting for peers, shortest five",
            "Time of a step that a rank waits for others; where the job has several hosts, with the communication itself. "
            "The rank that waits least is the one that the others wait for.",
            "timeseries",
            "s",
            (
                Query(
                    "bottomk(5, sum by (rank) ("
                    + _phase(',phase=~"comm|comm_late_peer"')
                    + " / on (job_id, rank) group_left () "
                    + STEPS
                    + "))",
                    "rank {{rank}}",
                ),
            ),
            width=12,
        ),
        Panel(
            "Waiting for the loader, longest five",
            "Share of the step in which a rank waits for a loader to give a batch.",
            "timeseries",
            "percentunit",
            (
                Query(
                    "topk(5, max by (rank, loader) ("
                    + LOADER_SECONDS
                    + " / on (job_id, rank) group_left () "
                    + STEP_SECONDS
                    + "))",
                    "rank {{rank}}, {{loader}}",
                ),
            ),
        ),
        Panel(
            "Batches ready, fewest five",
            "Batches that lay ready in the loader's queue when the last one was taken. 0 means that the step waited.",
            "timeseries",
            "none",
            (
                Query(
                    'bottomk(5, max by (rank, loader) (aidiag_loader_queue_batches{job_id="$job_id"}))',
                    "rank {{rank}}, {{loader}}",
                ),
            ),
        ),
        Panel(
            "Loader workers",
            "Worker processes that each loader has in a rank, and how many live in the rank that has the fewest.",
            "timeseries",
            "none",
            (
                Query('min by (loader) (aidiag_loader_workers{job_id="$job_id"})', "{{loader}}, configured"),
                Query('min(aidiag_rank_loader_workers_alive{job_id="$job_id"})', "alive, fewest"),
            ),
        ),
        Panel(
            "GPU utilisation, lowest five",
            "Share of time in which a kernel ran on the GPU; low in every rank: look at the phases above.",
            "timeseries",
            "percentunit",
            (
                Query(
                    "bottomk(5, max by (node, gpu) (aidiag_gpu_utilization_ratio"
                    ' and on (instance) aidiag_rank_up{job_id="$job_id"}))',
                    "{{node}} GPU {{gpu}}",
                ),
            ),
            width=12,
        ),
        Panel(
            "GPU clocks held down",
            "Reasons for which a GPU runs below its clocks.",
            "timeline",
            "none",
            (
                Query(
                    "max by (node, gpu, reason) (aidiag_gpu_throttle_active"
                    ' and on (instance) aidiag_rank_up{job_id="$job_id"})',
                    "{{node}} GPU {{gpu}}: {{reason}}",
                ),
            ),
            width=12,
            states={0: State("free", "green"), 1: State("held down", "orange")},
        ),
    ),
)
