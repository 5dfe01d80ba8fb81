"""docs/operators.md: its examples are valid, and what it names is there."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from aidiag.collectors import registry
from aidiag.diagnose import config
from aidiag.grafana.alerts import SCRAPE_JOB
from aidiag.rules.loader import load_rules
from aidiag.rules.waivers import load_waivers

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "operators.md"


def example(kind: str) -> str:
    """The code block of a kind."""
    (found,) = re.findall(rf"^```\w+ {kind}\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return str(found)


def test_prometheus_takes_its_configuration(require: Callable[[str], str], tmp_path: Path) -> None:
    """promtool accepts the scrape configuration together with the committed rule files, and the job has the right name."""
    text = example("prometheus").replace("/etc/prometheus/aidiag", str(ROOT / "grafana" / "prometheus"))
    path = tmp_path / "prometheus.yml"
    path.write_text(text)
    done = subprocess.run(
        [require("promtool"), "check", "config", str(path)], capture_output=True, text=True, check=False
    )

    assert 0 == done.returncode, done.stdout + done.stderr
    assert "2 rule files found" in done.stdout
    assert [SCRAPE_JOB] == [job["job_name"] for job in yaml.safe_load(text)["scrape_configs"]]


def test_alertmanager_takes_its_configuration(require: Callable[[str], str], tmp_path: Path) -> None:
    """amtool accepts the route, which groups the alerts of one job."""
    path = tmp_path / "alertmanager.yml"
    path.write_text(example("alertmanager"))
    done = subprocess.run([require("amtool"), "check-config", str(path)], capture_output=True, text=True, check=False)

    assert 0 == done.returncode, done.stdout + done.stderr
    assert ["alertname", "job_id"] == yaml.safe_load(path.read_text())["route"]["group_by"]


def test_aidiag_takes_its_settings(tmp_path: Path) -> None:
    """The settings are read without a complaint, and a misspelt one is refused."""
    path = tmp_path / "config.toml"
    path.write_text(example("config"))
    read = config.load(path, usual=())

    assert (9877, "127.0.0.1", ("gpu",)) == (read.port, read.listen, tuple(read.disable))
    assert {"input_bound": {"share_min": "30%"}} == read.rules
    path.write_text(example("config").replace("listen", "lisen"))
    with pytest.raises(config.ConfigError, match="lisen"):
        config.load(path, usual=())


def test_aidiag_takes_its_waivers(tmp_path: Path) -> None:
    """The waivers are read without a complaint, and each names a rule that there is."""
    path = tmp_path / "waivers.yaml"
    path.write_text(example("waivers"))
    waivers, errors = load_waivers(path)

    assert [] == errors
    assert {waiver.id for waiver in waivers} <= {rule.id for rule in load_rules([], registry()).rules}
    assert ["eth1"] == [waiver.target for waiver in waivers]


def test_what_it_links_to_is_there() -> None:
    """Every relative link and every file that the page tells to copy exists."""
    text = PAGE.read_text()
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", text)
    copied = re.findall(r"`?((?:deploy|grafana)/[\w./-]+\.\w+)`?", text)

    assert len(links) >= 4
    assert [] == [link for link in links if not (PAGE.parent / link).is_file()]
    assert len(copied) >= 4
    assert [] == [name for name in copied if not (ROOT / name).is_file()]
