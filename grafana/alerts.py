"""Alerts on findings and on aidiag itself, free of any file format.

A rule's condition is never translated to PromQL: aidiag judges, and an alert fires while `aidiag_finding_active` says
so. Each built-in rule has an alert of its own, which carries the rule's words; operators' own rules fall to the two
generic ones. Consequences (`explained="1"`) never alert, and neither do findings of severity info.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from aidiag.grafana.placeholder import for_alert, go_text, source_line
from aidiag.rules.finding import Severity
from aidiag.rules.model import RemedyStep, Rule

SCRAPE_JOB = "aidiag"
"""The scrape job of the sidecars and daemons: the job_name that docs/operators.md asks for."""

BLAMED = (
    '{{ if eq $labels.scope "rank" }}rank {{ with $labels.rank }}{{ . }}{{ else }}{{ $labels.target }}{{ end }}'
    "{{ else }}{{ $labels.scope }} {{ $labels.target }}{{ with $labels.rank }} of rank {{ . }}{{ end }}{{ end }}"
)
VERDICT = (
    f"{{{{ if $labels.scope }}}}aidiag blames {BLAMED}{{{{ else }}}}aidiag can blame nothing in particular{{{{ end }}}}"
    "{{ with $labels.node }}, on node {{ . }}{{ end }}{{ with $labels.job_id }}, in job {{ . }}{{ end }}"
    " (rule {{ $labels.rule }}, cause {{ $labels.cause }})."
)
EVIDENCE = (
    "The measured values (⟨ ⟩) and the evidence: `aidiag diagnose` on the job's folder, or /api/v1/findings of the sidecar"
    "{{ with $labels.node }} on {{ . }}{{ end }}."
)


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert: `expr` in PromQL, `hold` how long it must be true before it fires. Texts are Go templates.

    A `severity` of None is that of the finding, which the series carry.
    """

    name: str
    expr: str
    severity: Severity | None
    annotations: Mapping[str, str]
    hold: str = "0s"


@dataclass(frozen=True, slots=True)
class Group:
    """Alerts that are evaluated together."""

    name: str
    alerts: tuple[Alert, ...]


def groups(rules: Sequence[Rule], runbooks: str) -> tuple[Group, ...]:
    """All alerts. `runbooks` is what a page's name is put after to make its address."""
    return (
        Group("aidiag-findings", tuple(of_rule(rule, runbooks) for rule in rules if may_alarm(rule))),
        Group("aidiag-own-rules", tuple(_of_own_rules(rules, runbooks))),
        Group("aidiag-self", _of_itself(runbooks)),
    )


def may_alarm(rule: Rule) -> bool:
    """Whether findings of the rule can be worse than info."""
    return rule.severity != "info" or rule.critical is not None


def alert_name(rule_id: str) -> str:
    """`input_bound` becomes `AidiagInputBound`."""
    return "Aidiag" + "".join(word.capitalize() for word in rule_id.split("_"))


def of_rule(rule: Rule, runbooks: str) -> Alert:
    """The alert of one rule."""
    annotations = {
        "summary": for_alert(rule.title),
        "description": f"{VERDICT}\n{for_alert(rule.why)}\n{EVIDENCE}",
    }
    if rule.remedy:
        annotations["remedy"] = _first_steps(rule.remedy)
    annotations["runbook_url"] = f"{runbooks}{rule.id}.md"
    # No severity of the rule: it may raise that of a finding while the fault is worse.
    return Alert(alert_name(rule.id), _active(f'rule="{rule.id}",severity!="info"'), None, annotations)


def _active(matchers: str) -> str:
    # Every sidecar of a job may report a fault of the whole job: without the labels of the one that said so it is one.
    return f'max without (instance, pod, container) (aidiag_finding_active{{{matchers},explained="0"}})'


def _first_steps(remedy: Sequence[RemedyStep]) -> str:
    """The cheapest steps, as far as the first that is always given: whether a condition holds the alert cannot know."""
    always = next((number for number, step in enumerate(remedy, 1) if step.when is None), len(remedy))
    lines = []
    for number, step in enumerate(remedy[:always], 1):
        condition = "" if step.when is None else go_text(f" (only while {source_line(step.when)})")
        lines.append(f"{number}. {for_alert(step.do)}{condition}")
        if step.command:
            lines.append(f"   Command: {for_alert(step.command)}")
        if step.confirm:
            lines.append(f"   It has helped when: {for_alert(step.confirm)}")
    if len(remedy) > always:
        lines.append(f"The runbook page has all {len(remedy)} steps.")
    return "\n".join(lines)


def _of_own_rules(rules: Iterable[Rule], runbooks: str) -> Iterable[Alert]:
    known = "|".join(rule.id for rule in rules)
    severities: tuple[Severity, ...] = ("critical", "warning")
    for severity in severities:
        yield Alert(
            f"AidiagFinding{severity.capitalize()}",
            _active(f'severity="{severity}",rule!~"{known}"'),
            severity,
            {
                "summary": f"A rule of this site has found a fault of severity {severity}.",
                "description": f"{VERDICT}\n{EVIDENCE}",
                "remedy": "Ask for the rule's words: aidiag explain {{ $labels.rule }}",
                "runbook_url": f"{runbooks}README.md",
            },
        )


def _of_itself(runbooks: str) -> tuple[Alert, ...]:
    def alert(name: str, expr: str, hold: str, summary: str, description: str, remedy: str) -> Alert:
        text = {"summary": summary, "description": description, "remedy": remedy}
        return Alert(name, expr, "warning", {**text, "runbook_url": f"{runbooks}README.md#aidiag-itself"}, hold)

    return (
        alert(
            "AidiagDown",
            f'up{{job="{SCRAPE_JOB}"}} == 0',
            "5m",
            "An aidiag sidecar or daemon cannot be scraped.",
            "{{ $labels.instance }} has not answered for 5 minutes: faults on that host are not seen. "
            "The training job is not touched by this.",
            "On that host: systemctl status aidiag, or the sidecar container's log.",
        ),
        alert(
            "AidiagCollectorFailing",
            "aidiag_collector_success == 0",
            "10m",
            "A collector of aidiag fails.",
            "The collector {{ $labels.collector }} on {{ $labels.node }} has failed for 10 minutes: rules that need its "
            "signals cannot be judged there.",
            "On that host: aidiag version --json says what the collector lacks and what would make it see.",
        ),
        alert(
            "AidiagSeriesCapReached",
            "aidiag_dropped_series > 0 or aidiag_findings_suppressed > 0",
            "5m",
            "aidiag leaves series out because there are too many.",
            "{{ $labels.instance }} leaves out series of signals or of findings: its picture is not whole.",
            "Look for a job that floods it: /api/v1/findings and /metrics of that sidecar.",
        ),
    )
