"""Is aidiag itself well? What it cannot see, and what it costs."""

from __future__ import annotations

from aidiag.grafana.panel import Panel, Query, Row, State

JOB_HOSTS = 'and on (instance) aidiag_rank_up{job_id="$job_id"}'

ROW = Row(
    "aidiag itself",
    (
        Panel(
            "Collectors",
            "Whether each collector's last reading succeeded.",
            "timeline",
            "none",
            (
                Query(
                    f"min by (node, collector) (aidiag_collector_success {JOB_HOSTS})",
                    "{{node}} {{collector}}",
                ),
            ),
            states={0: State("failed", "red"), 1: State("ok", "green")},
        ),
        Panel(
            "Rules that cannot be judged",
            "Rules that lack a signal, with the number of hosts on which they do. "
            "A fault of that kind would not be seen there.",
            "table",
            "none",
            (Query(f"count by (rule) (aidiag_rule_unknown == 1 {JOB_HOSTS})", "{{rule}}"),),
            columns={"rule": "Rule", "Value": "Hosts"},
        ),
        Panel(
            "Cost of the shim",
            "Time that the shim's hooks take in a step, in the rank where they take most.",
            "timeseries",
            "s",
            (
                Query(
                    'max(rate(aidiag_shim_overhead_seconds_total{job_id="$job_id"}[$__rate_interval])'
                    ' / rate(aidiag_steps_total{job_id="$job_id"}[$__rate_interval]))',
                    "a step",
                ),
            ),
            width=4,
        ),
        Panel(
            "Series exported",
            "Series in one answer of a sidecar, and those left out because there were too many.",
            "timeseries",
            "none",
            (
                Query(f"max by (instance) (aidiag_exported_series {JOB_HOSTS})", "{{instance}}"),
                Query(f"max by (instance) (aidiag_dropped_series {JOB_HOSTS})", "{{instance}}, left out"),
            ),
            width=4,
        ),
    ),
)
