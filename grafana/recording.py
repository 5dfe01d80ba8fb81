"""Recording rules: own time a step of every rank, and what is usual in its job.

For fleets, where a dashboard over all ranks would be slow. The names say what the rows are by, what is measured, and
over which range. `quantile` interpolates between the two middle ranks, where aidiag's own `p50_of` takes the lower.
"""

from __future__ import annotations

from dataclasses import dataclass

OWN = "job_id_rank:aidiag_own_seconds_per_step:rate2m"
STEPS = "(sum by (job_id, rank) (rate(aidiag_steps_total[2m])) > 0)"


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded series: its name, its PromQL, and what it holds."""

    name: str
    expr: str
    help: str


RECORDINGS: tuple[Recording, ...] = (
    Recording(
        OWN,
        'sum by (job_id, rank) (rate(aidiag_step_phase_seconds_total{phase!~"comm.*"}[2m]))'
        f" / on (job_id, rank) {STEPS}",
        "Seconds of a step that a rank spends on its own work, over two minutes",
    ),
    Recording(
        "job_id:aidiag_own_seconds_per_step:p50",
        f"quantile by (job_id) (0.5, {OWN})",
        "Median own time a step of the job's ranks",
    ),
    Recording(
        "job_id:aidiag_own_seconds_per_step:mad",
        f"quantile by (job_id) (0.5, abs({OWN} - on (job_id) group_left () job_id:aidiag_own_seconds_per_step:p50))",
        "Median absolute deviation of the own time: the usual difference between ranks",
    ),
    Recording(
        "job_id_phase:aidiag_phase_seconds_per_step:p50",
        "quantile by (job_id, phase) (0.5, sum by (job_id, rank, phase) (rate(aidiag_step_phase_seconds_total[2m]))"
        f" / on (job_id, rank) group_left () {STEPS})",
        "Median seconds of a phase in a step over the job's ranks",
    ),
    Recording(
        "job_id:aidiag_ranks_up:sum",
        "sum by (job_id) (max by (job_id, rank) (aidiag_rank_up))",
        "Ranks of the job whose process lives",
    ),
)
