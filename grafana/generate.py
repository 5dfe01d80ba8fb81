"""Makes every generated file of the operators' side from the registry and the rules.

    python -m aidiag.grafana                    write them into the repository
    python -m aidiag.grafana --check            compare instead; lists the differences and exits 1
    python -m aidiag.grafana --out DIR --rules /etc/aidiag/rules.d --runbooks https://wiki.example/aidiag/

Needs grafana-foundation-sdk (the `dev` extra), which nothing needs at run time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from aidiag.collectors import registry
from aidiag.collectors.signal import Registry
from aidiag.grafana import alerts, job, metrics_page, runbook, yaml_files
from aidiag.grafana.recording import RECORDINGS
from aidiag.rules.loader import load_rules
from aidiag.rules.model import Rule

ROOT = Path(__file__).resolve().parent.parent
RUNBOOKS = "docs/runbooks/"
DATASOURCE = "prometheus"
"""The uid of the Prometheus data source in Grafana's alert file."""


def files(
    rules: Sequence[Rule], signals: Registry, *, runbooks: str = RUNBOOKS, datasource: str = DATASOURCE
) -> Mapping[str, str]:
    """Every generated file by its path from the repository's root. `runbooks` is where the pages are served."""
    from aidiag.grafana.dashboard import dashboard_json  # needs the dashboard builder, which run time does without

    ordered = sorted(rules, key=lambda rule: rule.id)
    groups = alerts.groups(ordered, runbooks)
    return {
        f"grafana/dashboards/{job.UID}.json": dashboard_json(job.UID, job.TITLE, job.ROWS, runbooks),
        "grafana/prometheus/alerts.yaml": yaml_files.prometheus_alerts(groups),
        "grafana/prometheus/recording.yaml": yaml_files.prometheus_recordings(RECORDINGS),
        "grafana/provisioning/alerting/aidiag.yaml": yaml_files.grafana_alerts(groups, datasource),
        "grafana/provisioning/dashboards/aidiag.yaml": yaml_files.grafana_dashboards(),
        "docs/metrics.md": metrics_page.page(signals),
        f"{RUNBOOKS}README.md": runbook.index(ordered),
        **{f"{RUNBOOKS}{rule.id}.md": runbook.page(rule, signals) for rule in ordered},
    }


def differences(wanted: Mapping[str, str], root: Path) -> list[str]:
    """What in `root` is not as it would be generated, one line each; a page of a rule that is gone counts too."""
    found = []
    for name, text in wanted.items():
        path = root / name
        if not path.is_file():
            found.append(f"{name}: missing")
        elif path.read_text(encoding="utf-8") != text:
            found.append(f"{name}: differs")
    found += [f"{name}: no longer generated" for name in _left_over(wanted, root)]
    return found


def write(wanted: Mapping[str, str], root: Path) -> None:
    """Write the files, and remove the pages of rules that are gone."""
    for name, text in wanted.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for name in _left_over(wanted, root):
        (root / name).unlink()


def _left_over(wanted: Mapping[str, str], root: Path) -> list[str]:
    pages = (path.relative_to(root).as_posix() for path in sorted((root / RUNBOOKS).glob("*.md")))
    return [name for name in pages if name not in wanted]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or compare; gives the exit status: 0, 1 for differences, 3 where a rule or the builder cannot be had."""
    parser = argparse.ArgumentParser(prog="python -m aidiag.grafana", description="Make dashboards, alerts and pages.")
    parser.add_argument("--check", action="store_true", help="compare with what is there, write nothing")
    parser.add_argument("--out", type=Path, default=ROOT, help="folder to write into (default: the repository)")
    parser.add_argument("--rules", type=Path, action="append", default=[], help="file or folder of own rules")
    parser.add_argument("--runbooks", default=RUNBOOKS, help="address under which the runbook pages are served")
    parser.add_argument("--datasource", default=DATASOURCE, help="uid of Grafana's Prometheus data source")
    chosen = parser.parse_args(arguments)

    signals = registry()
    book = load_rules(chosen.rules, signals)
    for error in book.errors:
        print(error, file=sys.stderr)
    if book.errors:
        return 3
    try:
        wanted = files(book.rules, signals, runbooks=chosen.runbooks, datasource=chosen.datasource)
    except ModuleNotFoundError as absent:
        print(f"{absent}; on Python 3.11 or newer: pip install 'aidiag[dev]'", file=sys.stderr)
        return 3
    if not chosen.check:
        write(wanted, chosen.out)
        return 0
    found = differences(wanted, chosen.out)
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0
