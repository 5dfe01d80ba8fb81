"""Every query of the dashboard, asked of a real Prometheus that holds what the real exporter rendered."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from aidiag.grafana.job import ROWS, UID
from aidiag.grafana.panel import Panel, Query
from tests.grafana import fleet
from tests.grafana.fleet import GIB
from tests.grafana.servers import Prometheus, prometheus

pytestmark = pytest.mark.live

ROOT = Path(__file__).resolve().parents[2]

FINDING_SEEN = 1000.0 * (fleet.START + fleet.FINDING_BEGINS)

TRUTH: Mapping[tuple[str, str], Mapping[str, float]] = {
    ("Ranks up", "up"): {"up": 4},
    ("Ranks up", "world size"): {"world size": 5},
    ("Ranks attached", "attached"): {"attached": 3},
    ("Step rate", "median rank"): {"median rank": 2},
    ("Step time", "median rank"): {"median rank": 0.49},
    ("Since the last step", "all ranks"): {"all ranks": 3},
    ("Findings", "active"): {"active": 3},
    ("State of each rank", "rank {{rank}}"): {"rank 0": 4, "rank 1": 4, "rank 2": 5, "rank 3": 4},
    ("Active findings", "{{rule}}"): {
        "input_bound": FINDING_SEEN,
        "cold_cache": FINDING_SEEN,
        "disk_full": FINDING_SEEN,
        "mtu_host": 1000.0 * fleet.END,  # newer than the last look of the subquery
    },
    ("Consequences", "{{rule}}"): {"low_gpu_utilization": FINDING_SEEN},
    ("Where the step's time goes", "{{phase}}"): {
        # The median of four lies between the second and the third; both are well ranks, whose step takes 0.49 s.
        "data_wait": 0.01 / 0.49,
        "forward": 0.10 / 0.49,
        "backward": 0.15 / 0.49,
        "optimizer": 0.02 / 0.49,
        "comm_late_peer": 0.18 / 0.49,
        "comm_wire": 0.02 / 0.49,
        "other": 0.01 / 0.49,
    },
    ("Step time", "slowest rank"): {"slowest rank": 0.50},
    ("Own time by rank, longest five", "rank {{rank}}"): {
        "rank 0": 0.29,
        "rank 1": 0.29,
        "rank 2": 0.29,
        "rank 3": 0.48,
    },
    ("Waiting for peers, shortest five", "rank {{rank}}"): {
        "rank 0": 0.18,
        "rank 1": 0.18,
        "rank 2": 0.18,
        "rank 3": 0,
    },
    ("Waiting for the loader, longest five", "rank {{rank}}, {{loader}}"): {
        "rank 0, images": 0.01 / 0.49,
        "rank 1, images": 0.01 / 0.49,
        "rank 2, images": 0.01 / 0.49,
        "rank 3, images": 0.20 / 0.50,
    },
    ("Batches ready, fewest five", "rank {{rank}}, {{loader}}"): {
        "rank 0, images": 2,
        "rank 1, images": 3,
        "rank 2, images": 4,
        "rank 3, images": 0,
    },
    ("Loader workers", "{{loader}}, configured"): {"images, configured": 4},
    ("Loader workers", "alive, fewest"): {"alive, fewest": 3},
    ("GPU utilisation, lowest five", "{{node}} GPU {{gpu}}"): {
        "node-a GPU 0": 0.9,
        "node-a GPU 1": 0.8,
        "node-b GPU 0": 0.3,
        "node-b GPU 1": 0.2,
    },
    ("GPU clocks held down", "{{node}} GPU {{gpu}}: {{reason}}"): {
        "node-a GPU 0: hw_thermal": 0,
        "node-a GPU 1: hw_thermal": 0,
        "node-b GPU 0: hw_thermal": 0,
        "node-b GPU 1: hw_thermal": 1,
    },
    ("GPU memory in use, fullest five", "{{node}} GPU {{gpu}}"): {
        "node-a GPU 0": 0.25,
        "node-a GPU 1": 0.5,
        "node-b GPU 0": 0.75,
        "node-b GPU 1": 0.9,
    },
    ("GPU memory held by others", "{{node}} GPU {{gpu}}"): {
        "node-a GPU 0": 0,
        "node-a GPU 1": GIB,
        "node-b GPU 0": 0,
        "node-b GPU 1": 0,
    },
    ("Torch allocator, fullest rank", "allocated"): {"allocated": 4 * GIB},
    ("Torch allocator, fullest rank", "reserved"): {"reserved": 5 * GIB},
    ("Torch allocator, fullest rank", "peak"): {"peak": 6 * GIB},
    ("Memory of each rank, largest five", "rank {{rank}}"): {f"rank {rank}": (rank + 4) * GIB for rank in range(4)},
    ("Memory against the cgroup's limit, fullest five", "rank {{rank}}"): {
        "rank 0": 0.2,
        "rank 1": 0.4,
        "rank 2": 0.6,
        "rank 3": 0.8,
    },
    ("Host memory available, lowest five", "{{node}}"): {"node-a": 0.4, "node-b": 0.2},
    ("/dev/shm free, lowest five", "{{node}}"): {"node-a": 0.5, "node-b": 0.1},
    ("CPU of each rank, most five", "rank {{rank}}"): {"rank 0": 1, "rank 1": 2, "rank 2": 3, "rank 3": 4},
    ("Stopped by the CPU quota, most five", "rank {{rank}}"): {"rank 0": 0, "rank 1": 0, "rank 2": 0.1, "rank 3": 0.25},
    ("CPU of the hosts by mode", "{{mode}}"): {"user": 10, "system": 1.5},
    ("Free disk, fullest five", "{{node}} {{mount}}"): {"node-a /": 0.3, "node-b /": 0.05},
    ("Open files against the limit, most five", "rank {{rank}}"): {
        "rank 0": 0.1,
        "rank 1": 0.2,
        "rank 2": 0.3,
        "rank 3": 0.4,
    },
    ("Kills and restarts", "OOM kills"): {"OOM kills": 2},
    ("Kills and restarts", "restarts"): {"restarts": 1},
    ("GPU temperature, hottest five", "{{node}} GPU {{gpu}}"): {
        "node-a GPU 0": 60,
        "node-a GPU 1": 61,
        "node-b GPU 0": 62,
        "node-b GPU 1": 70,
    },
    ("GPU power, highest five", "{{node}} GPU {{gpu}}"): {
        "node-a GPU 0": 300,
        "node-a GPU 1": 310,
        "node-b GPU 0": 320,
        "node-b GPU 1": 400,
    },
    ("Traffic of the job's interfaces, busiest five", "{{node}} {{device}}, sent"): {
        "node-a eth0, sent": 1e6,
        "node-b eth0, sent": 2e6,
    },
    ("Traffic of the job's interfaces, busiest five", "{{node}} {{device}}, received"): {
        "node-a eth0, received": 3e6,
        "node-b eth0, received": 4e6,
    },
    ("Errors and drops, most five", "{{node}} {{device}}"): {
        "node-a eth0": 0,
        "node-b eth0": 3,
        "node-a docker0": 0,
        "node-b docker0": 0,
    },
    ("MTU of the job's interfaces", "{{node}} {{device}}"): {"node-a eth0": 9000, "node-b eth0": 1500},
    ("Links", "{{node}} {{device}}"): {"node-a eth0": 1, "node-b eth0": 0},
    ("Links", "{{node}} {{device}} port {{port}}"): {"node-a mlx5_0 port 1": 1, "node-b mlx5_0 port 1": 0},
    ("Speed of the RDMA ports", "{{node}} {{device}} port {{port}}"): {
        "node-a mlx5_0 port 1": 25e9,
        "node-b mlx5_0 port 1": 12.5e9,
    },
    ("MTU of the RDMA ports", "{{node}} {{device}} port {{port}}"): {
        "node-a mlx5_0 port 1": 4096,
        "node-b mlx5_0 port 1": 1024,
    },
    ("Collectors", "{{node}} {{collector}}"): {
        "node-a gpu": 1,
        "node-a trainer": 1,
        "node-b gpu": 0,
        "node-b trainer": 1,
    },
    ("Rules that cannot be judged", "{{rule}}"): {"mtu_differs": 1},
    ("Cost of the shim", "a step"): {"a step": 8e-6},
    ("Series exported", "{{instance}}"): {f"{node}:9877": len(fleet.NODES[node]) for node in ("node-a", "node-b")},
    ("Series exported", "{{instance}}, left out"): {
        "node-a:9877, left out": 0,
        "node-b:9877, left out": 0,
    },
}

QUERIES = [(panel, query) for row in ROWS for panel in row.panels for query in panel.queries]


@pytest.fixture(scope="module")
def server(require: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that holds ten minutes of the invented fleet."""
    folder = tmp_path_factory.mktemp("panels")
    text = folder / "fleet.txt"
    text.write_text(fleet.open_metrics())
    command = [require("promtool"), "tsdb", "create-blocks-from", "openmetrics", str(text), str(folder / "data")]
    subprocess.run(command, check=True, capture_output=True)
    with prometheus(require("prometheus"), folder, "scrape_configs: []\n", folder / "data") as running:
        yield running


def asked(expr: str, job_id: str = fleet.JOB) -> str:
    """The query as Grafana would send it."""
    values = {"$job_id": job_id, "$__rate_interval": "2m", "$__range": f"{fleet.SECONDS}s"}
    return re.sub(r"\$\w+", lambda name: values[name[0]], expr)


def named(legend: str, labels: Mapping[str, str]) -> str:
    """The name that Grafana gives a series; a label that is not there fails the test."""
    return re.sub(r"{{(\w+)}}", lambda label: labels[label[1]], legend)


@pytest.mark.parametrize(("panel", "query"), QUERIES, ids=lambda part: getattr(part, "title", None) or part.legend)
def test_query_gives_the_injected_truth(server: Prometheus, panel: Panel, query: Query) -> None:
    """The series of each query, named by its legend, have exactly the values that were injected."""
    seen: dict[str, float] = {}
    for series in server.query(asked(query.expr), at=fleet.END):
        name = named(query.legend, series.labels)
        assert name not in seen, f"two series are called {name}"
        seen[name] = series.value

    assert pytest.approx(TRUTH[panel.title, query.legend], rel=1e-6) == seen


def test_every_query_has_its_truth() -> None:
    """No query is left out of the table above, and none stands there for nothing."""
    assert {(panel.title, query.legend) for panel, query in QUERIES} == TRUTH.keys()


@pytest.mark.parametrize(("panel", "query"), QUERIES, ids=lambda part: getattr(part, "title", None) or part.legend)
def test_unknown_job_has_no_values(server: Prometheus, panel: Panel, query: Query) -> None:
    """Of a job that is not there nothing is shown, not even a zero: missing is not zero."""
    assert [] == server.query(asked(query.expr, "nosuch"), at=fleet.END)


def test_table_columns_are_in_the_answer(server: Prometheus) -> None:
    """Each column of the findings table is a label of the series or its value."""
    (panel,) = (panel for panel, _ in QUERIES if panel.title == "Active findings")
    answer = server.query(asked(panel.queries[0].expr), at=fleet.END)
    (series,) = (series for series in answer if series.labels["rule"] == "input_bound")

    assert panel.columns is not None
    assert {*series.labels, "Value"} == set(panel.columns)
    assert ("train", "node-b", "3") == (series.labels["target"], series.labels["node"], series.labels["rank"])


def test_job_variable_lists_the_jobs(server: Prometheus) -> None:
    """The dashboard's job variable offers every job."""
    board = json.loads((ROOT / "grafana" / "dashboards" / f"{UID}.json").read_text())
    (query,) = (variable["query"] for variable in board["templating"]["list"] if variable["name"] == "job_id")
    found = re.fullmatch(r"label_values\((.*), (\w+)\)", query)

    assert found
    assert ["other", "train"] == server.label_values(found[2], found[1], fleet.START, fleet.END)
