"""What a dashboard is made of, free of any Grafana format: rows of panels, each with its PromQL queries.

In a query `$job_id` is the dashboard's variable, `$__rate_interval` and `$__range` are Grafana's own. Only functions
of Prometheus 2.42 are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

PanelKind = Literal["stat", "timeseries", "timeline", "table"]


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL query. `legend` names its series: text with `{{label}}`."""

    expr: str
    legend: str


@dataclass(frozen=True, slots=True)
class State:
    """How a number is shown: its word and the name of its colour in Grafana's palette."""

    text: str
    color: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. `unit` is an id of Grafana's units; `width` is in 24ths of the page, `height` in grid rows.

    `states` are the words for a panel whose numbers are codes. `alarm_from` colours a stat red from that number on.
    `stacked` stacks the series of a time series. `columns` are a table's columns: label to heading, in order.
    """

    title: str
    description: str
    kind: PanelKind
    unit: str
    queries: tuple[Query, ...]
    width: int = 8
    height: int = 8
    states: Mapping[int, State] | None = None
    alarm_from: float | None = None
    stacked: bool = False
    columns: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A titled row of panels."""

    title: str
    panels: tuple[Panel, ...]


UP_OR_DOWN: Mapping[int, State] = {0: State("down", "red"), 1: State("up", "green")}
