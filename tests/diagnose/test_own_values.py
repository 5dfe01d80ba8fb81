"""Commands of remedies with the job's own values."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidiag.collectors import registry
from aidiag.collectors.observation import Event
from aidiag.diagnose.incident import LogFile, diagnose_logs
from aidiag.diagnose.own_values import VALUES_KEPT, OwnValues
from aidiag.rules.finding import Finding, Step
from aidiag.rules.loader import load_rules


def filled(command: str, *events: Event) -> str:
    """The command of a remedy after these events."""
    own = OwnValues()
    for event in events:
        own.see(event)
    finding = Finding("r", "c", "r", "info", 0.5, "", "", None, None, None, (), "", (Step("Do.", command),))
    return own.fill(finding).remedy[0].command


def variable(name: str, value: str) -> Event:
    """A variable that was set."""
    return Event("environment_variable", None, None, {"name": name, "value": value})


@pytest.mark.parametrize(
    ("event", "command", "expected"),
    [
        (variable("MASTER_PORT", "29500"), "ss -ltnp sport = :$MASTER_PORT", "ss -ltnp sport = :29500"),
        (variable("MASTER_ADDR", "node-a"), "nc -vz ${MASTER_ADDR} 29500", "nc -vz node-a 29500"),
        (variable("MASTER_PORT", "29500; rm -rf /"), "echo $MASTER_PORT", "echo $MASTER_PORT"),
        (variable("OTHER", "1"), "echo $MASTER_PORT", "echo $MASTER_PORT"),
        (Event("job_cancelled", None, None, {"job": "4711.0"}), "sacct -j $SLURM_JOB_ID", "sacct -j 4711"),
        (Event("task_out_of_memory", None, None, {"step": "4711.batch"}), "sacct -j $SLURM_JOB_ID", "sacct -j 4711"),
    ],
)
def test_what_the_logs_tell_is_filled_in(event: Event, command: str, expected: str) -> None:
    """A variable that the logs tell stands in the command; a value that a shell would not take as it stands does not."""
    assert filled(command, event) == expected


def test_a_value_that_differs_between_ranks_is_not_filled_in() -> None:
    """Which of them to use is not known."""
    assert filled("echo $A", variable("A", "1"), variable("A", "2")) == "echo $A"


def test_memory_is_bounded() -> None:
    """A log cannot make it remember without end."""
    many = [variable(f"N{number}", "1") for number in range(VALUES_KEPT + 10)]
    assert filled(f"$N{VALUES_KEPT + 5} $N5", *many) == f"$N{VALUES_KEPT + 5} 1"


def test_a_report_has_the_jobs_own_values(tmp_path: Path) -> None:
    """The id of the Slurm job that the log names stands in the command that asks Slurm about it."""
    path = tmp_path / "job.log"
    failed = (
        "E1201 00:17:37.000000 1 torch/distributed/elastic/multiprocessing/api.py:1] "
        "failed (exitcode: -9) local_rank: 1 (pid: 9827) of binary: /usr/bin/python3\n"
    )
    path.write_text(f"SLURM_JOB_ID=4711\n{failed}")
    known = registry()
    report = diagnose_logs([LogFile(path, path.name)], rules=load_rules((), known).rules, registry=known, language="en")
    commands = [step.command for finding in report.findings for step in finding.remedy]
    assert any("sacct -j 4711 " in command for command in commands)
    assert not any("unknown" in command for command in commands)
