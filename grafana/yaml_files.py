"""The YAML files: Prometheus rules, Grafana alerts and dashboards for provisioning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from aidiag.grafana.alerts import Alert, Group
from aidiag.grafana.recording import Recording

HEAD = "# Made by `python -m aidiag.grafana`. Do not edit: change the rules or the generator.\n"
FOLDER = "aidiag"
DASHBOARDS_FOLDER = "/var/lib/grafana/dashboards/aidiag"


def prometheus_alerts(groups: Iterable[Group]) -> str:
    """A rule file for Prometheus (`rule_files:`), checked by promtool."""
    return _yaml(
        {"groups": [{"name": group.name, "rules": [_prometheus(alert) for alert in group.alerts]} for group in groups]}
    )


def prometheus_recordings(recordings: Iterable[Recording]) -> str:
    """A rule file with the recorded series."""
    rules = [{"record": recording.name, "expr": recording.expr} for recording in recordings]
    return _yaml({"groups": [{"name": "aidiag-recorded", "rules": rules}]})


def grafana_alerts(groups: Iterable[Group], datasource: str) -> str:
    """The same alerts for Grafana's own alerting (provisioning/alerting/). `datasource` is the uid of a Prometheus.

    Grafana answers a query without series with "no data", which here is the healthy state.
    """
    return _yaml(
        {
            "apiVersion": 1,
            "groups": [
                {
                    "orgId": 1,
                    "name": group.name,
                    "folder": FOLDER,
                    "interval": "1m",
                    "rules": [_grafana(alert, datasource) for alert in group.alerts],
                }
                for group in groups
            ],
        }
    )


def grafana_dashboards() -> str:
    """Tells Grafana where the dashboards lie (provisioning/dashboards/)."""
    provider = {
        "name": "aidiag",
        "type": "file",
        "folder": FOLDER,
        "disableDeletion": True,
        "updateIntervalSeconds": 60,
        "options": {"path": DASHBOARDS_FOLDER},
    }
    return _yaml({"apiVersion": 1, "providers": [provider]})


def _prometheus(alert: Alert) -> dict[str, Any]:
    held = {} if alert.hold == "0s" else {"for": alert.hold}
    return {
        "alert": alert.name,
        "expr": alert.expr,
        **held,
        "labels": {"severity": alert.severity or "{{ $labels.severity }}"},
        "annotations": dict(alert.annotations),
    }


def _grafana(alert: Alert, datasource: str) -> dict[str, Any]:
    range_seconds = {"from": 600, "to": 0}
    query = {"refId": "A", "expr": alert.expr, "instant": True, "range": False, "editorMode": "code"}
    # Prometheus leaves out series for which a comparison is false: any series that is left is a reason to fire, also
    # one whose value is 0 (`up == 0`).
    anything = {
        "refId": "B",
        "type": "math",
        "expression": "$A > -1",
    }
    return {
        "uid": grafana_uid(alert),
        "title": alert.name,
        "condition": "B",
        "data": [
            {"refId": "A", "relativeTimeRange": range_seconds, "datasourceUid": datasource, "model": query},
            {"refId": "B", "relativeTimeRange": range_seconds, "datasourceUid": "__expr__", "model": anything},
        ],
        "noDataState": "OK",
        "execErrState": "Error",
        "for": alert.hold,
        # Where there is none the alert has the label of its series. A template would not survive: Grafana replaces
        # `$labels` in provisioned labels by an environment variable.
        "labels": {"severity": alert.severity} if alert.severity else {},
        "annotations": dict(alert.annotations),
        "isPaused": False,
    }


def grafana_uid(alert: Alert) -> str:
    """The stable identity of an alert in Grafana."""
    return alert.name.replace("Aidiag", "aidiag-", 1)


def _yaml(content: Mapping[str, Any]) -> str:
    return HEAD + yaml.dump(
        dict(content), Dumper=_Dumper, sort_keys=False, width=10**6, allow_unicode=True, default_flow_style=False
    )


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as such, and never an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
