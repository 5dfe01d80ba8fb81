"""The job dashboard's form: what Grafana needs of it, and that it names nothing that is not there."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from aidiag.collectors import registry
from aidiag.grafana.job import ROWS, UID
from aidiag.grafana.job.overview import RANK_STATES
from aidiag.grafana.metrics import metric_table
from aidiag.grafana.panel import Panel, Query
from tests.grafana.promql import labels_of

ROOT = Path(__file__).resolve().parents[2]
UNITS = {"none", "s", "bytes", "percentunit", "Bps", "celsius", "watt", "dateTimeAsIso"}
SCHEMA_VERSION_LIMIT = 42

METRICS = {name: frozenset(metric.labels) for name, metric in metric_table(registry()).items()}
PANELS = [panel for row in ROWS for panel in row.panels]
QUERIES = [(panel, query) for panel in PANELS for query in panel.queries]
by_title = pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.title)
by_query = pytest.mark.parametrize(
    ("panel", "query"), QUERIES, ids=lambda part: getattr(part, "title", None) or part.legend
)


@pytest.fixture(scope="module")
def board() -> dict[str, Any]:
    """The committed dashboard."""
    loaded: dict[str, Any] = json.loads((ROOT / "grafana" / "dashboards" / f"{UID}.json").read_text())
    return loaded


def overlaps(panels: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Titles of panels that lie over each other, and of a panel that leaves the page paired with itself."""
    places = [(panel["title"], panel["gridPos"]) for panel in panels]
    crossing = [
        (one, other)
        for (one, a), (other, b) in combinations(places, 2)
        if a["x"] < b["x"] + b["w"]
        and b["x"] < a["x"] + a["w"]
        and a["y"] < b["y"] + b["h"]
        and b["y"] < a["y"] + a["h"]
    ]
    return crossing + [(title, title) for title, at in places if at["x"] + at["w"] > 24 or at["x"] < 0]


def test_identity_is_stable(board: dict[str, Any]) -> None:
    """The uid stays, so that links to the dashboard stay; the form is one that Grafana 10 to 13 read."""
    assert "aidiag-job" == board["uid"]
    assert board["schemaVersion"] <= SCHEMA_VERSION_LIMIT
    assert "id" not in board or board["id"] is None


def test_data_source_and_job_are_variables(board: dict[str, Any]) -> None:
    """The operator picks the data source and the job; no panel has a data source of its own."""
    variables = {variable["name"]: variable["type"] for variable in board["templating"]["list"]}

    assert {"datasource": "datasource", "job_id": "query", "runbooks": "textbox"} == variables
    sources = {
        json.dumps(part["datasource"])
        for panel in board["panels"]
        if panel["type"] != "row"
        for part in (panel, *panel["targets"])
    }
    assert ['{"type": "prometheus", "uid": "${datasource}"}'] == list(sources)


def test_ids_are_unique_and_panels_do_not_overlap(board: dict[str, Any]) -> None:
    """Every panel has its own id and its own place on the page."""
    identities = [panel["id"] for panel in board["panels"]]

    assert len(identities) == len(set(identities))
    assert [] == overlaps(board["panels"])


def test_overlap_is_seen(board: dict[str, Any]) -> None:
    """The check above finds a panel that was moved onto another, and one that hangs over the edge."""
    moved = [dict(panel) for panel in board["panels"]]
    moved[2] = {**moved[2], "gridPos": moved[1]["gridPos"]}
    moved[3] = {**moved[3], "gridPos": {**moved[3]["gridPos"], "x": 23}}

    assert {(moved[1]["title"], moved[2]["title"]), (moved[3]["title"], moved[3]["title"])} <= set(overlaps(moved))


def test_every_panel_is_drawn(board: dict[str, Any]) -> None:
    """The committed file has the panels and queries of the rows, in their order."""
    drawn = [(p["title"], [t["expr"] for t in p["targets"]]) for p in board["panels"] if p["type"] != "row"]

    assert [(panel.title, [query.expr for query in panel.queries]) for panel in PANELS] == drawn


@by_title
def test_panel_says_what_it_shows(panel: Panel) -> None:
    """A panel has a title, a description that is a sentence, a known unit and at least one query."""
    assert panel.title
    assert panel.description.endswith(".")
    assert len(panel.description) > 30
    assert panel.unit in UNITS or panel.unit.startswith("suffix: ")
    assert panel.queries


@by_title
def test_codes_have_words(panel: Panel) -> None:
    """A state timeline shows words and not numbers."""
    assert (panel.kind == "timeline") == (panel.states is not None)


@by_query
def test_metrics_and_labels_exist(panel: Panel, query: Query) -> None:
    """The query is PromQL, and its metrics and labels, those of its legend too, are in the metric table."""
    labels = labels_of(query.expr, METRICS)

    assert set(re.findall(r"{{(\w+)}}", query.legend)) <= labels
    if panel.columns is not None:
        assert set(panel.columns) <= labels | {"Value"}


@by_query
def test_query_is_of_the_chosen_job(panel: Panel, query: Query) -> None:
    """Every query is limited to the chosen job, by its own label or through the hosts of its ranks."""
    assert 'job_id="$job_id"' in query.expr


@pytest.mark.parametrize(
    ("expr", "complaint"),
    [
        ("aidiag_rank_upp", "aidiag_rank_upp"),
        ("sum by (nod) (aidiag_host_cpus)", "no label nod"),
        ('aidiag_host_cpus{rank="0"}', "no label rank"),
        ("aidiag_rank_up / on (node) aidiag_rank_up", "no label node"),
    ],
)
def test_wrong_names_are_seen(expr: str, complaint: str) -> None:
    """The check above refuses an unknown metric and labels that the metric does not have."""
    with pytest.raises((KeyError, AssertionError), match=complaint):
        labels_of(expr, METRICS)


def test_lost_labels_are_seen() -> None:
    """A label that an aggregation drops is not counted as there."""
    assert frozenset() == labels_of("sum(aidiag_rank_up)", METRICS)
    assert frozenset({"node"}) == labels_of("max by (node) (aidiag_gpu_power_watts)", METRICS)
    assert "instance" not in labels_of("max without (instance) (aidiag_rank_up)", METRICS)


def test_rank_states_are_those_of_the_signal() -> None:
    """The words for the codes of aidiag_rank_state_code are the ones in the signal's own help."""
    words = re.findall(r"(\d+) ([a-z ]+)", registry().signals["rank_state_code"].help)

    assert {int(code): word for code, word in words} == {code: state.text for code, state in RANK_STATES.items()}


def test_findings_link_to_their_runbook(board: dict[str, Any]) -> None:
    """In both finding tables the rule's id links to its page below the address that the operator sets."""
    tables = [json.dumps(panel) for panel in board["panels"] if panel["title"] in ("Active findings", "Consequences")]

    assert [["${runbooks}${__value.raw}.md"]] * 2 == [re.findall(r'"url": "([^"]*)"', table) for table in tables]
