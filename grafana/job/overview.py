"""Is the job well? Ranks, steps, and what aidiag has found."""

from __future__ import annotations

from aidiag.collectors.rank_state import RankState
from aidiag.grafana.panel import Panel, Query, Row, State

COLORS = {
    RankState.UNKNOWN: "gray",
    RankState.STARTING: "super-light-blue",
    RankState.RENDEZVOUS: "light-blue",
    RankState.GROUP_INIT: "blue",
    RankState.TRAINING: "green",
    RankState.CHECKPOINT: "yellow",
    RankState.EVALUATION: "purple",
    RankState.FINISHED: "dark-green",
    RankState.FAILED: "red",
}
RANK_STATES = {int(state): State(state.words, color) for state, color in COLORS.items()}

FINDING_COLUMNS = {
    "rule": "Rule",
    "severity": "Severity",
    "scope": "Culprit",
    "target": "Which",
    "node": "Node",
    "rank": "Rank",
    "cause": "Cause",
    "Value": "Since",
}


MATTERS = 'explained="0",severity!="info"'


def _findings(matchers: str) -> str:
    """The job's findings, and those that a daemon has about the job's hosts themselves, which are of no job."""
    return (
        f'(aidiag_finding_active{{job_id="$job_id",{matchers}}}'
        f' or aidiag_finding_active{{job_id="",{matchers}}} and on (instance) aidiag_rank_up{{job_id="$job_id"}})'
    )


def _since(explained: str) -> str:
    """When each active finding was first seen in the shown range, as Unix milliseconds (Grafana's dates).

    The subquery looks once a minute; of a finding that is newer than its last look the last scrape is taken.
    """
    matchers = f'explained="{explained}"'
    seen = f'timestamp(aidiag_finding_active{{job_id=~"$job_id|",{matchers}}})'
    return (
        "1000 * min by (rule, severity, scope, target, node, rank, cause) ("
        f"(min_over_time({seen}[$__range:1m]) or {seen}) and {_findings(matchers)})"
    )


ROW = Row(
    "Overview",
    (
        Panel(
            "Ranks up",
            "Ranks whose process lives, beside the world size that the job states. "
            "Fewer than the world size: a rank never came up or has ended.",
            "stat",
            "none",
            (
                Query('sum(max by (rank) (aidiag_rank_up{job_id="$job_id"}))', "up"),
                Query('max(aidiag_job_world_size{job_id="$job_id"})', "world size"),
            ),
            width=4,
            height=4,
        ),
        Panel(
            "Ranks attached",
            "Ranks in which the shim has attached, on all hosts that are scraped. "
            "Without it a rank's steps and phases cannot be seen.",
            "stat",
            "none",
            (Query('sum(max by (rank) (aidiag_rank_shim_attached{job_id="$job_id"}))', "attached"),),
            width=4,
            height=4,
        ),
        Panel(
            "Step rate",
            "Optimizer steps a second of the median rank.",
            "stat",
            "suffix: steps/s",
            (Query('quantile(0.5, rate(aidiag_steps_total{job_id="$job_id"}[$__rate_interval]))', "median rank"),),
            width=4,
            height=4,
        ),
        Panel(
            "Step time",
            "Wall time of a step of the median rank.",
            "stat",
            "s",
            (
                Query(
                    'quantile(0.5, rate(aidiag_step_seconds_total{job_id="$job_id"}[$__rate_interval])'
                    ' / rate(aidiag_steps_total{job_id="$job_id"}[$__rate_interval]))',
                    "median rank",
                ),
            ),
            width=4,
            height=4,
        ),
        Panel(
            "Since the last step",
            "Time since any rank ended a step. It grows while the job hangs, and during checkpoints and evaluations.",
            "stat",
            "s",
            (Query('time() - max(aidiag_step_last_end_timestamp_seconds{job_id="$job_id"})', "all ranks"),),
            width=4,
            height=4,
        ),
        Panel(
            "Findings",
            "Active findings of severity warning and critical about the job and its hosts, without their consequences. "
            "No value means that no sidecar of the job is being scraped.",
            "stat",
            "none",
            (
                Query(
                    f"count(max without (instance) {_findings(MATTERS)})"
                    ' or 0 * max(aidiag_job_world_size{job_id="$job_id"})',
                    "active",
                ),
            ),
            width=4,
            height=4,
            alarm_from=1,
        ),
        Panel(
            "State of each rank",
            "What each rank is doing, from its process and its record.",
            "timeline",
            "none",
            (Query('max by (rank) (aidiag_rank_state_code{job_id="$job_id"})', "rank {{rank}}"),),
            width=24,
            states=RANK_STATES,
        ),
        Panel(
            "Active findings",
            "Root causes: the rule that fired, whom it blames, and since when it has been seen in the shown range. "
            "A click on the rule opens its runbook page.",
            "table",
            "dateTimeAsIso",
            (Query(_since("0"), "{{rule}}"),),
            width=14,
            columns=FINDING_COLUMNS,
        ),
        Panel(
            "Consequences",
            "Findings that another one explains: they end when their cause is mended.",
            "table",
            "dateTimeAsIso",
            (Query(_since("1"), "{{rule}}"),),
            width=10,
            columns=FINDING_COLUMNS,
        ),
    ),
)
