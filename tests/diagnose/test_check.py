"""`aidiag check`: verdicts on this host and on recorded nodes, in every format, with every exit policy."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from xml.etree import ElementTree

import pytest

from aidiag.diagnose.check import CheckError, Selection, check_node
from aidiag.diagnose.config import Config
from aidiag.diagnose.report.checks import exit_status, junit, prometheus, text
from aidiag.diagnose.report.model import Check, JobFacts, Report
from tests.fixtures.nodes.lay import lay
from tests.real_parts import require

ROOT = Path(__file__).resolve().parents[2]


def by_id(report: Report) -> dict[tuple[str, str], str]:
    """Status by check and target."""
    return {(check.id, check.target): check.status for check in report.checks}


def config(tmp_path: Path) -> Config:
    """Settings without this machine's own."""
    return Config(rules_folder=tmp_path / "rules.d", waivers_file=tmp_path / "waivers.yaml")


def test_this_host_has_no_gpu_and_no_rdma_verdicts_that_alarm(tmp_path: Path) -> None:
    """Without a driver and an RDMA stack their checks are skipped, with the reason; the rest is judged."""
    report = check_node(config(tmp_path))
    statuses = by_id(report)

    if not Path("/proc/driver/nvidia").exists():
        assert "skipped" == statuses["gpu-mem-in-use", "node"]
    if not Path("/sys/class/infiniband").exists():
        assert "skipped" == statuses["ib-port-state", "node"]
    assert statuses["dev-shm", "node"] in ("ok", "warning", "critical")


def test_healthy_recorded_node_is_left_alone(tmp_path: Path) -> None:
    """Nothing of a healthy GPU node is an alarm, and its RDMA ports are judged one by one."""
    report = check_node(config(tmp_path), root=lay("gpu-node", tmp_path / "node"))

    assert [] == [check for check in report.checks if check.status in ("warning", "critical")]
    assert [target for (check, target), status in by_id(report).items() if check == "ib-port-state" and status == "ok"]


def test_sick_twin_is_named(tmp_path: Path) -> None:
    """The same node with one port down: exactly that port is named, with what to do."""
    folder = lay("gpu-node", tmp_path / "node")
    (state,) = sorted(folder.glob("sys/class/infiniband/*/ports/1/state"))[:1]
    state.write_text("1: DOWN\n")
    (state.parent / "phys_state").write_text("3: Disabled\n")
    port = f"{state.parts[-4]}:1"

    report = check_node(config(tmp_path), root=folder)

    alarms = [check for check in report.checks if check.status in ("warning", "critical")]
    assert [("ib-port-state", port)] == [(check.id, check.target) for check in alarms]
    assert alarms[0].remedy
    waiver = f"- {{id: ib-port-state, target: '{port}', until: {date.today() + timedelta(1)}, reason: known}}\n"
    (tmp_path / "waivers.yaml").write_text(waiver)
    waived = check_node(config(tmp_path), root=folder)
    (check,) = [check for check in waived.checks if (check.id, check.target) == ("ib-port-state", port)]
    assert ("critical", True) == (check.status, check.waived.endswith(": known"))
    assert alarms[0].reason == check.reason
    assert 0 == exit_status(waived.checks, "warning", "gate")


LINK_RULE = """
id: link_downs
cause: ib_link_down
check: ib-link-downs
title: A link went down
severity: warning
confidence: 0.9
scope: port
let: {downs: 'delta(rdma_port_link_downed_total, 600s)'}
when: downs > 0
summary: "{who} went down {downs} times."
why: The port counts it.
observed: "{downs} times"
expected: never
remedy: [{do: Check the cable., confirm: It stays up.}]
references: ["https://docs.kernel.org/infiniband/sysfs.html"]
tests:
  - {name: fires, series: {'rdma_port_link_downed_total{device="mlx5_0",port="1"}': 0x300 1x300}, at: 599s, expect: {targets: ["mlx5_0:1"]}}
  - {name: quiet, series: {'rdma_port_link_downed_total{device="mlx5_0",port="1"}': 1x600}, at: 599s, expect: quiet}
  - {name: undecided, series: {'rdma_port_up{device="mlx5_0",port="1"}': 1x60}, at: 50s, expect: undecided}
"""


def test_counters_of_a_recorded_node_are_judged_by_their_growth(tmp_path: Path) -> None:
    """A recorded node that holds an earlier reading (before/) shows what has grown since; one without cannot."""
    settings = config(tmp_path)
    settings.rules_folder.mkdir()
    (settings.rules_folder / "links.yaml").write_text(LINK_RULE)
    folder = lay("gpu-node", tmp_path / "node")

    grown = by_id(check_node(settings, root=folder))
    shutil.rmtree(folder / "before")
    single = by_id(check_node(settings, root=folder))

    assert ("warning", "unknown") == (grown["ib-link-downs", "mlx5_0:1"], single["ib-link-downs", "mlx5_0:1"])


def test_selection(tmp_path: Path) -> None:
    """--only and --skip take ids and groups; an unknown one is an error."""
    only = check_node(config(tmp_path), selection=Selection(only=("host",)))
    assert {"dev-shm", "mem-size-free"} == {check.id for check in only.checks}
    without = check_node(config(tmp_path), selection=Selection(skip=("dev-shm", "ib")))
    assert not {"dev-shm", "ib-port-state"} & {check.id for check in without.checks}
    with pytest.raises(CheckError, match="no such check or group"):
        check_node(config(tmp_path), selection=Selection(only=("nope",)))


CHECKS = {
    "ok": Check("a", "ok"),
    "skipped": Check("b", "skipped", reason="not here"),
    "warning": Check("c", "warning", "eth0", reason="small <MTU> & \x1b[31m"),
    "critical": Check("d", "critical", "gpu3", reason="lost", remedy="reset"),
    "unknown": Check("e", "unknown", reason="hangs"),
}


@pytest.mark.parametrize(
    ("statuses", "gate", "warning", "unknown", "nagios"),
    [
        ((), 0, 0, 0, 0),
        (("ok", "skipped"), 0, 0, 0, 0),
        (("ok", "warning"), 0, 1, 1, 1),
        (("unknown",), 0, 0, 3, 3),
        (("unknown", "warning"), 0, 1, 1, 1),
        (("warning", "unknown", "critical"), 2, 2, 2, 2),
    ],
)
def test_exit_statuses(statuses: tuple[str, ...], gate: int, warning: int, unknown: int, nagios: int) -> None:
    """The exit status follows the gate, or with the nagios policy the worst verdict."""
    checks = [CHECKS[status] for status in statuses]

    assert (gate, warning, unknown) == tuple(
        exit_status(checks, on, "gate") for on in ("critical", "warning", "unknown")
    )
    assert nagios == exit_status(checks, "critical", "nagios")


def test_a_waived_fault_is_shown_and_raises_no_alarm() -> None:
    """A waiver is a mark of its own: the status stays what it is, in text, XML and metrics it is no fault, and it counts
    for no exit status.
    """
    checks = (CHECKS["ok"], replace(CHECKS["critical"], waived="until 2027-01-31: known"))

    assert [0, 0] == [exit_status(checks, "unknown", policy) for policy in ("gate", "nagios")]
    first, last = (line for line, _ in text(Report(job=JobFacts(hosts=("node-a",)), checks=checks)))
    assert "waived    d gpu3 until 2027-01-31: known (else critical: lost)" == first
    assert "node-a: 1 ok, 1 waived" == last
    suite = ElementTree.fromstring("\n".join(junit(checks)))
    assert ("0", "1") == (suite.attrib["failures"], suite.attrib["skipped"])
    (skipped,) = suite.findall("testcase/skipped")
    assert "waived until 2027-01-31: known: critical: lost" == skipped.attrib["message"]
    assert 'aidiag_check_status{check="d",target="gpu3"} 0' in list(prometheus(checks, None))


def test_junit_is_xml_with_a_case_a_verdict() -> None:
    """Hostile text does not break the XML; failures, errors and skips are counted."""
    suite = ElementTree.fromstring("\n".join(junit(list(CHECKS.values()))))

    assert {"tests": "5", "failures": "2", "errors": "1", "skipped": "1"} == {
        name: suite.attrib[name] for name in ("tests", "failures", "errors", "skipped")
    }
    assert 2 == len(suite.findall("testcase/failure"))


def test_prometheus_text_is_clean() -> None:
    """promtool accepts the textfile output."""
    lines = "\n".join(prometheus(list(CHECKS.values()), 1.0)) + "\n"
    lint = subprocess.run(
        [require("promtool"), "check", "metrics"], input=lines, capture_output=True, text=True, check=False
    )  # fmt: skip

    assert (0, "") == (lint.returncode, lint.stderr)


def test_text_is_quiet_when_all_is_well() -> None:
    """One line for a healthy node, one line and a remedy for each problem, nothing unescaped."""
    well = [line for line, _ in text(Report(job=JobFacts(hosts=("node-a",)), checks=(CHECKS["ok"],)))]
    sick = [line for line, _ in text(Report(job=JobFacts(hosts=("node-a",)), checks=tuple(CHECKS.values())))]

    assert ["node-a: 1 ok"] == well
    assert sick[0].startswith("critical  d gpu3: lost")
    assert "-> reset" in sick[1]
    assert "\x1b" not in "".join(sick)


def test_no_torch_and_json_contract(tmp_path: Path) -> None:
    """A check in a new process imports no torch and prints the report schema."""
    program = (
        "import sys; from aidiag.diagnose.cli import main\n"
        "try:\n    main(['check', '--format', 'json'])\nfinally:\n    assert 'torch' not in sys.modules"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )  # fmt: skip
    report = json.loads(run.stdout)

    assert "aidiag.report/v1" == report["schema"]
    assert {"id", "status", "target", "observed", "expected", "reason", "remedy", "waived"} == set(report["checks"][0])
    assert "AssertionError" not in run.stderr
