"""The generated files: committed as they would be made anew, and made by one command."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from aidiag.collectors import registry
from aidiag.grafana.generate import ROOT, differences, files, main
from aidiag.rules.loader import load_rules

pytest.importorskip("grafana_foundation_sdk", reason="the dashboard builder needs Python 3.11")

SITE_RULES = Path(__file__).with_name("site_rules")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything generated."""
    folder = tmp_path_factory.mktemp("made")
    assert main(["--out", str(folder)]) == 0
    return folder


def test_committed_files_are_current() -> None:
    """What is committed is what the registry and the rules make now; else run `python -m aidiag.grafana`."""
    wanted = files(load_rules([], registry()).rules, registry())

    assert [] == differences(wanted, ROOT)


def test_check_lists_every_kind_of_difference(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--check ends with 1 and names a changed file, a missing one and a page of a rule that is gone."""
    assert main(["--check", "--out", str(made)]) == 0
    alerts, metrics, page = (
        made / "grafana/prometheus/alerts.yaml",
        made / "docs/metrics.md",
        made / "docs/runbooks/x.md",
    )
    before = alerts.read_text(), metrics.read_text()
    alerts.write_text(before[0] + "# edited by hand\n")
    metrics.unlink()
    page.write_text("# a rule that is gone\n")

    assert main(["--check", "--out", str(made)]) == 1
    assert [
        "grafana/prometheus/alerts.yaml: differs",
        "docs/metrics.md: missing",
        "docs/runbooks/x.md: no longer generated",
    ] == capsys.readouterr().out.splitlines()

    assert main(["--out", str(made)]) == 0
    assert before == (alerts.read_text(), metrics.read_text())
    assert not page.exists()


def test_rules_of_the_site_get_alert_and_page(tmp_path: Path) -> None:
    """With --rules a site's own rules have their own alerts and pages, under the site's address and data source."""
    chosen = ["--rules", str(SITE_RULES), "--runbooks", "https://wiki.example/aidiag/", "--datasource", "thanos"]
    assert main(["--out", str(tmp_path), *chosen]) == 0

    groups = yaml.safe_load((tmp_path / "grafana/prometheus/alerts.yaml").read_text())["groups"]
    links = {alert["alert"]: alert["annotations"]["runbook_url"] for group in groups for alert in group["rules"]}
    assert "https://wiki.example/aidiag/scratch_full.md" == links["AidiagScratchFull"]
    assert "# The scratch disk is full" in (tmp_path / "docs/runbooks/scratch_full.md").read_text()
    assert "https://wiki.example/aidiag/" in (tmp_path / "grafana/dashboards/aidiag-job.json").read_text()
    assert "datasourceUid: thanos" in (tmp_path / "grafana/provisioning/alerting/aidiag.yaml").read_text()


def test_broken_rule_ends_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A rule that cannot be read ends the command with 3 and lines that name the place; nothing is written."""
    broken = tmp_path / "broken.yaml"
    broken.write_text((SITE_RULES / "scratch_full.yaml").read_text().replace("free < free_min", "fre < free_min"))

    assert main(["--out", str(tmp_path / "out"), "--rules", str(broken)]) == 3
    lines = capsys.readouterr().err.splitlines()
    assert f"{broken}:11:7: when: unknown name fre; did you mean free?" in lines
    assert all(line.startswith(f"{broken}:") for line in lines)
    assert not (tmp_path / "out").exists()


def test_without_the_builder_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where grafana-foundation-sdk is not installed the command ends with 3 and the way to get it."""
    monkeypatch.delitem(sys.modules, "aidiag.grafana.dashboard", raising=False)
    monkeypatch.setitem(sys.modules, "grafana_foundation_sdk.builders", None)

    assert main(["--out", str(tmp_path / "out")]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("pip install 'aidiag[dev]'")
    assert not (tmp_path / "out").exists()


def test_run_time_never_imports_the_generator() -> None:
    """Nothing that runs at run time needs the dashboard builder: of this room only the generator imports it."""
    code = (
        "import sys, aidiag.grafana.alerts, aidiag.grafana.generate, aidiag.grafana.job;"
        "print([name for name in sys.modules if name.startswith('grafana_foundation_sdk')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)

    assert "[]" == done.stdout.strip()


def test_dashboards_are_found_where_they_are_put(require: Callable[[str], str]) -> None:
    """The provisioning file for dashboards is of version 1 and reads a folder that docs/operators.md names."""
    provisioning = yaml.safe_load((ROOT / "grafana/provisioning/dashboards/aidiag.yaml").read_text())
    (provider,) = provisioning["providers"]

    assert (1, "file") == (provisioning["apiVersion"], provider["type"])
    assert provider["options"]["path"] in (ROOT / "docs" / "operators.md").read_text()
