"""The alerts: checked and run by promtool, and the same in both formats."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from aidiag.collectors import registry
from aidiag.grafana import alerts, yaml_files
from aidiag.grafana.job import slow
from aidiag.grafana.metrics import metric_table
from aidiag.grafana.placeholder import LABELS
from aidiag.rules.loader import load_rules
from aidiag.rules.model import Rule
from aidiag.rules.texts import in_language
from tests.grafana.promql import labels_of

ROOT = Path(__file__).resolve().parents[2]
SITE_RULES = Path(__file__).with_name("site_rules")

SELF = ("AidiagDown", "AidiagCollectorFailing", "AidiagSeriesCapReached")
GENERIC = ("AidiagFindingCritical", "AidiagFindingWarning")
EVIDENCE = "The measured values (⟨ ⟩) and the evidence: `aidiag diagnose` on the job's folder, or /api/v1/findings of the sidecar on node-b."

RULES = load_rules([], registry()).rules
ALARMING = [rule for rule in RULES if alerts.may_alarm(rule)]


@pytest.fixture(scope="module")
def committed() -> dict[str, dict[str, Any]]:
    """The committed Prometheus alerts by name."""
    groups = yaml.safe_load((ROOT / "grafana" / "prometheus" / "alerts.yaml").read_text())["groups"]
    return {alert["alert"]: alert for group in groups for alert in group["rules"]}


@pytest.fixture
def promtool(require: Callable[[str], str], tmp_path: Path) -> Callable[..., None]:
    """Run the tests of a promtool test file against a rule file; a failing one fails the test."""

    def run(rule_file: Path, *groups: dict[str, Any]) -> None:
        assert groups
        test_file = tmp_path / "tests.yaml"
        content = {"rule_files": [str(rule_file)], "evaluation_interval": "1m", "tests": list(groups)}
        test_file.write_text(yaml.safe_dump(content, allow_unicode=True))
        done = subprocess.run(
            [require("promtool"), "test", "rules", str(test_file)], capture_output=True, text=True, check=False
        )
        assert 0 == done.returncode, done.stdout + done.stderr

    return run


def series(values: str, name: str = "aidiag_finding_active", **labels: str) -> dict[str, str]:
    """One input series."""
    text = ",".join(f'{key}="{value}"' for key, value in labels.items())
    return {"series": f"{name}{{{text}}}", "values": values}


def finding(rule: str, **labels: str) -> dict[str, str]:
    """The labels of a finding on rank 3, where not said otherwise; empty ones are left out as in a scrape."""
    usual = {"severity": "warning", "scope": "rank", "target": "3", "job_id": "j1", "node": "node-b", "rank": "3"}
    every = {"rule": rule, **usual, "cause": "some_cause", "explained": "0", "job": "aidiag", **labels}
    return {name: value for name, value in every.items() if value}


def at(minute: int, name: str, *fired: tuple[dict[str, str], dict[str, str]]) -> dict[str, Any]:
    """What must fire under a name at a minute: labels and annotations of each alert."""
    expected = [{"exp_labels": labels, "exp_annotations": annotations} for labels, annotations in fired]
    return {"eval_time": f"{minute}m", "alertname": name, "exp_alerts": expected}


def filled(annotations: dict[str, str], verdict: str) -> dict[str, str]:
    """What Prometheus makes of the templates of a finding's alert for rank 3 on node-b in job j1."""
    labels = {"who": "rank 3", "rank": "3", "ranks": "3", "host": "node-b", "hosts": "node-b", "job": "j1"}

    def fill(text: str) -> str:
        text = text.replace(alerts.VERDICT, verdict).replace(alerts.EVIDENCE, EVIDENCE)
        for name, template in sorted(LABELS.items(), key=lambda item: -len(item[1])):  # longest first
            text = text.replace(template, labels.get(name, "3"))
        return re.sub(r'{{ "(.*?)" }}', r"\1", text)

    return {name: fill(text) for name, text in annotations.items()}


def test_rule_files_are_valid(require: Callable[[str], str]) -> None:
    """promtool accepts both committed rule files."""
    files = [str(ROOT / "grafana" / "prometheus" / name) for name in ("alerts.yaml", "recording.yaml")]
    done = subprocess.run([require("promtool"), "check", "rules", *files], capture_output=True, text=True, check=False)

    assert 0 == done.returncode, done.stdout + done.stderr


def test_every_rule_that_may_alarm_has_an_alert(committed: dict[str, dict[str, Any]]) -> None:
    """Each built-in rule but those of severity info has one alert of its own, beside the generic ones and aidiag's own."""
    assert {*(alerts.alert_name(rule.id) for rule in ALARMING), *GENERIC, *SELF} == committed.keys()


@pytest.mark.parametrize("rule", ALARMING, ids=lambda rule: rule.id)
def test_alert_carries_the_words_of_its_rule(committed: dict[str, dict[str, Any]], rule: Rule) -> None:
    """The alert has the rule's title, its explanation, the first step of its remedy and the address of its page."""
    told = committed[alerts.alert_name(rule.id)]["annotations"]
    words = {
        "summary": in_language(rule.title, "en"),
        "description": in_language(rule.why, "en"),
        "remedy": in_language(rule.remedy[0].do, "en"),
    }

    for name, text in words.items():
        for piece in re.split(r"{[^}]*}|{{|}}|\$", text):
            assert piece in told[name]
    assert f"docs/runbooks/{rule.id}.md" == told["runbook_url"]
    assert (ROOT / told["runbook_url"]).is_file()


@pytest.mark.parametrize("rule", ALARMING, ids=lambda rule: rule.id)
def test_alert_fires_for_its_rule_and_resolves(
    committed: dict[str, dict[str, Any]], promtool: Callable[..., None], rule: Rule
) -> None:
    """It fires once though two sidecars report the finding, tells the verdict, and ends with the finding.

    A consequence, an info finding and a finding of another rule do not fire it; the generic alerts stay quiet.
    """
    name = alerts.alert_name(rule.id)
    seen = finding(rule.id, cause=rule.cause)
    verdict = f"aidiag blames rank 3, on node node-b, in job j1 (rule {rule.id}, cause {rule.cause})."
    expected = ({**seen}, filled(committed[name]["annotations"], verdict))
    promtool(
        ROOT / "grafana" / "prometheus" / "alerts.yaml",
        {
            "interval": "1m",
            "input_series": [
                series("_ 1x3 stale", **seen, instance="node-a:9877"),
                series("_ 1x3 stale", **seen, instance="node-b:9877", pod="b"),
                series("_ 1x3 stale", **finding(rule.id, rank="4", target="4", explained="1"), instance="node-a:9877"),
                series(
                    "_ 1x3 stale", **finding(rule.id, rank="5", target="5", severity="info"), instance="node-a:9877"
                ),
            ],
            "alert_rule_test": [
                at(0, name),
                at(2, name, expected),
                at(6, name),
                *(at(2, generic) for generic in GENERIC),
            ],
        },
        {
            "interval": "1m",
            "input_series": [series("1x5", **finding("another_rule"))],
            "alert_rule_test": [at(2, name)],
        },
    )


@pytest.mark.parametrize(
    ("shape", "blamed"),
    [
        ({}, "aidiag blames rank 3, on node node-b, in job j1"),
        ({"rank": "", "target": "0,1,2"}, "aidiag blames rank 0,1,2, on node node-b, in job j1"),
        ({"scope": "gpu", "target": "gpu1", "rank": ""}, "aidiag blames gpu gpu1, on node node-b, in job j1"),
        ({"scope": "gpu", "target": "gpu1"}, "aidiag blames gpu gpu1 of rank 3, on node node-b, in job j1"),
        ({"scope": "host", "target": "node-b", "rank": "", "job_id": ""}, "aidiag blames host node-b, on node node-b"),
        ({"scope": "", "target": "", "rank": ""}, "aidiag can blame nothing in particular, on node node-b, in job j1"),
    ],
)
@pytest.mark.parametrize("severity", ["critical", "warning"])
def test_rule_of_the_site_falls_to_the_generic_alert(
    committed: dict[str, dict[str, Any]],
    promtool: Callable[..., None],
    severity: str,
    shape: dict[str, str],
    blamed: str,
) -> None:
    """A rule that is not built in fires the generic alert of its severity, with the culprit in words, and it resolves."""
    name = f"AidiagFinding{severity.capitalize()}"
    (other,) = {*GENERIC} - {name}
    seen = finding("scratch_full", severity=severity, **shape)
    text = filled(committed[name]["annotations"], f"{blamed} (rule scratch_full, cause some_cause).")
    text["remedy"] = "Ask for the rule's words: aidiag explain scratch_full"
    promtool(
        ROOT / "grafana" / "prometheus" / "alerts.yaml",
        {
            "interval": "1m",
            "input_series": [
                series("_ 1x3 stale", **seen, instance="a:1"),
                series("_ 1x3 stale", **finding("scratch_full", severity=severity, explained="1", node="c")),
            ],
            "alert_rule_test": [at(0, name), at(2, name, (seen, text)), at(2, other), at(6, name)],
        },
    )


@pytest.mark.parametrize(
    ("name", "bad", "other", "waits"),
    [
        ("AidiagDown", series("1 0x20 1x20", "up", job="aidiag", instance="a:1"), series("0x40", "up", job="node"), 5),
        (
            "AidiagCollectorFailing",
            series("1 0x20 1x20", "aidiag_collector_success", job="aidiag", instance="a:1", node="a", collector="gpu"),
            series("1x40", "aidiag_collector_success", job="aidiag", instance="b:1", node="b", collector="gpu"),
            10,
        ),
        (
            "AidiagSeriesCapReached",
            series("0 3x20 0x20", "aidiag_dropped_series", job="aidiag", instance="a:1"),
            series("9x40", "aidiag_exported_series", job="aidiag", instance="a:1"),
            5,
        ),
        (
            "AidiagSeriesCapReached",
            series("0 3x20 0x20", "aidiag_findings_suppressed", job="aidiag", instance="a:1"),
            series("9x40", "aidiag_exported_series", job="aidiag", instance="a:1"),
            5,
        ),
    ],
)
def test_alert_on_aidiag_itself(
    committed: dict[str, dict[str, Any]],
    promtool: Callable[..., None],
    name: str,
    bad: dict[str, str],
    other: dict[str, str],
    waits: int,
) -> None:
    """It fires when the fault has lasted long enough, not before, not for another one's, and it resolves."""
    labels = dict(re.findall(r'(\w+)="([^"]*)"', bad["series"]))
    annotations = {
        key: re.sub(r"{{ \$labels.(\w+) }}", lambda label: labels[label[1]], text)
        for key, text in committed[name]["annotations"].items()
    }
    promtool(
        ROOT / "grafana" / "prometheus" / "alerts.yaml",
        {
            "interval": "1m",
            "input_series": [bad, other],
            "alert_rule_test": [
                at(waits, name),
                at(waits + 2, name, ({**labels, "severity": "warning"}, annotations)),
                at(25, name),
            ],
        },
    )


@pytest.mark.parametrize("waiting", ["comm_late_peer", "comm"])
def test_recorded_series_hold_the_own_time(promtool: Callable[..., None], waiting: str) -> None:
    """Two ranks of a job step twice a second; rank 1 computes 0.4 s a step where rank 0 computes 0.1 s and waits. The
    wait is no own time, whether it could be split or is told whole.
    """
    steps, rates = [], {"0": {"forward": 12, waiting: 36}, "1": {"forward": 48, waiting: 0}}
    for rank, phases in rates.items():
        identity = {"job_id": "j", "rank": rank, "instance": f"h{rank}", "job": "aidiag"}
        steps.append(series("100+120x10", "aidiag_steps_total", **identity))
        steps.append(series("1x10", "aidiag_rank_up", **identity))
        for phase, growth in phases.items():
            steps.append(series(f"50+{growth}x10", "aidiag_step_phase_seconds_total", phase=phase, **identity))

    def value(name: str, number: float, **labels: str) -> dict[str, Any]:
        text = ",".join(f'{key}="{value}"' for key, value in labels.items())
        return {"labels": f"{name}{{{text}}}", "value": number}

    own, p50 = "job_id_rank:aidiag_own_seconds_per_step:rate2m", "job_id:aidiag_own_seconds_per_step:p50"
    mad, up = "job_id:aidiag_own_seconds_per_step:mad", "job_id:aidiag_ranks_up:sum"
    phase = "job_id_phase:aidiag_phase_seconds_per_step:p50"
    wanted = {
        own: [value(own, 0.1, job_id="j", rank="0"), value(own, 0.4, job_id="j", rank="1")],
        p50: [value(p50, 0.25, job_id="j")],
        mad: [value(mad, 0.15, job_id="j")],
        phase: [
            value(phase, 0.25, job_id="j", phase="forward"),
            value(phase, 0.15, job_id="j", phase=waiting),
        ],
        up: [value(up, 2, job_id="j")],
    }
    tests = [
        {
            "expr": f"round({name}, 0.0001)" if name != up else name,
            "eval_time": "8m",
            "exp_samples": [
                {**sample, "labels": sample["labels"] if name == up else sample["labels"][len(name) :]}
                for sample in samples
            ],
        }
        for name, samples in wanted.items()
    ]
    promtool(
        ROOT / "grafana" / "prometheus" / "recording.yaml",
        {"interval": "1m", "input_series": steps, "promql_expr_test": tests},
    )


@pytest.mark.parametrize("waiting", ["comm_late_peer", "comm"])
def test_the_dashboard_shows_who_is_waited_for(promtool: Callable[..., None], waiting: str) -> None:
    """The rank that waits least and computes longest is on the panels, in a job of one host and of several."""
    panels = {panel.title: panel.queries[0].expr for panel in slow.ROW.panels}
    values = []
    for rank, (own, wait) in {"0": (12, 36), "1": (42, 6)}.items():
        values.append(series("100+120x10", "aidiag_steps_total", job_id="j", rank=rank))
        for phase, growth in {"forward": own, waiting: wait}.items():
            values.append(
                series(f"50+{growth}x10", "aidiag_step_phase_seconds_total", job_id="j", rank=rank, phase=phase)
            )
    wanted = {
        "Own time by rank, longest five": {"0": 0.1, "1": 0.35},
        "Waiting for peers, shortest five": {"0": 0.3, "1": 0.05},
    }
    tests = [
        {
            "expr": f"round({panels[title].replace('$__rate_interval', '2m').replace('$job_id', 'j')}, 0.0001)",
            "eval_time": "8m",
            "exp_samples": [{"labels": f'{{rank="{rank}"}}', "value": value} for rank, value in ranks.items()],
        }
        for title, ranks in wanted.items()
    ]
    rules = ROOT / "grafana" / "prometheus" / "recording.yaml"
    promtool(rules, {"interval": "1m", "input_series": values, "promql_expr_test": tests})


def test_alerts_name_only_what_is_there(committed: dict[str, dict[str, Any]]) -> None:
    """Every metric and label in an alert, in its texts too, is in the metric table."""
    table = {name: frozenset(metric.labels) for name, metric in metric_table(registry()).items()}
    for alert in committed.values():
        labels = labels_of(alert["expr"], {**table, "up": frozenset()})
        named = {name for text in alert["annotations"].values() for name in re.findall(r"\$labels\.(\w+)", text)}
        assert named <= labels, alert["alert"]


def test_grafana_has_the_same_alerts(committed: dict[str, dict[str, Any]]) -> None:
    """Grafana's file has every alert with the same query, wait and texts, each under an identity that Grafana takes."""
    groups = yaml.safe_load((ROOT / "grafana" / "provisioning" / "alerting" / "aidiag.yaml").read_text())["groups"]
    rules = {rule["title"]: rule for group in groups for rule in group["rules"]}

    assert committed.keys() == rules.keys()
    assert len(rules) == len({rule["uid"] for rule in rules.values()})
    for name, rule in rules.items():
        query, condition = rule["data"]
        assert (committed[name]["expr"], committed[name].get("for", "0s")) == (query["model"]["expr"], rule["for"])
        assert committed[name]["annotations"] == rule["annotations"]
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,40}", rule["uid"]), rule["uid"]
        assert rule["condition"] == condition["refId"] == condition["model"]["refId"]
        assert ("__expr__", "$A > -1") == (condition["datasourceUid"], condition["model"]["expression"])
        assert "OK" == rule["noDataState"]


def test_grafana_would_not_take_texts_for_environment_variables() -> None:
    """Nothing in Grafana's file that it interpolates holds a `$`: `${` in annotations, any `$` in labels and titles."""
    groups = alerts.groups([*RULES, *load_rules([SITE_RULES], registry(), built_in=False).rules], "docs/runbooks/")
    text = yaml_files.grafana_alerts(groups, "prometheus")
    rules = [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]

    assert any("$" in rule["annotations"]["remedy"] for rule in rules)
    for rule in rules:
        assert "${" not in "".join(rule["annotations"].values())
        assert "$" not in "".join([rule["title"], rule["uid"], *rule["labels"].values()])


def test_commands_come_through_the_templates(promtool: Callable[..., None], tmp_path: Path) -> None:
    """A remedy with braces and dollar signs reaches the alert as it is typed, and what cannot be known is marked."""
    rules = load_rules([SITE_RULES], registry(), built_in=False).rules
    path = tmp_path / "alerts.yaml"
    path.write_text(yaml_files.prometheus_alerts(alerts.groups(rules, "https://wiki.example/aidiag/")))
    seen = finding("scratch_full", scope="host", target="node-b", rank="", cause="scratch_full", job_id="")
    told = {
        "summary": "The scratch disk is full",
        "description": "aidiag blames host node-b, on node node-b (rule scratch_full, cause scratch_full).\n"
        "Checkpoints of node-b go to /scratch, of which ⟨free⟩ is left; at 0 % the next one fails.\n" + EVIDENCE,
        "remedy": "1. Delete old checkpoints (only while free < 1%)\n"
        "   Command: find /scratch -name '*.ckpt' -mtime +7 | while read -r file; do echo ${file}; done\n"
        "   It has helped when: df shows more than ⟨free_min⟩ free\n"
        "2. Ask the owners of scratch-{} for more space\n"
        "The runbook page has all 3 steps.",
        "runbook_url": "https://wiki.example/aidiag/scratch_full.md",
    }
    promtool(
        path,
        {
            "interval": "1m",
            "input_series": [series("1x3", **seen, instance="node-b:9877")],
            "alert_rule_test": [at(2, "AidiagScratchFull", (seen, told))],
        },
    )
