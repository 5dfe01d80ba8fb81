"""`aidiag check`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

FORMATS = ("text", "json", "junit", "prom")


@click.command("check")
@click.option("--only", multiple=True, help="Check ids or groups (gpu, ib, net, host, job); may be repeated.")
@click.option("--skip", multiple=True, help="Check ids or groups to leave out; may be repeated.")
@click.option("--root", type=click.Path(path_type=Path), help="Judge the recorded node in this folder instead.")
@click.option("--deadline", type=click.FloatRange(0.1, 3600), default=10.0, help="Seconds for the whole check.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", help="How to print the verdicts.")
@click.option(
    "--fail-on",
    type=click.Choice(["critical", "warning", "unknown"]),
    default="critical",
    help="From what on the exit status is not 0.",
)
@click.option(
    "--exit-policy", type=click.Choice(["gate", "nagios"]), default="gate", help="nagios: 0, 1, 2, 3 by the worst."
)
@click.option("--lang", default="", help="Language of the texts: en or zh (the locale's).")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="Settings file.")
def check_command(
    only: tuple[str, ...],
    skip: tuple[str, ...],
    root: Path | None,
    deadline: float,
    form: str,
    fail_on: str,
    exit_policy: str,
    lang: str,
    config_file: Path | None,
) -> int:
    """Look at this host once, before a job: what is wrong, what to do, and what could not be seen.

    Exit status: 2 when something is critical; 1 for warnings with --fail-on warning; 3 for what is unknown with
    --fail-on unknown; else 0. 3 is also this command's own failure.
    """
    from aidiag.diagnose.check import Selection, check_node
    from aidiag.diagnose.config import load
    from aidiag.diagnose.report.checks import exit_status, render
    from aidiag.diagnose.report.words import language

    if not deadline < float("inf"):
        raise click.BadParameter("give a number of seconds", param_hint="'--deadline'")
    config = load(config_file)
    report = check_node(
        config,
        root=root,
        selection=Selection(_split(only), _split(skip)),
        deadline_seconds=deadline,
        language=language(lang or config.lang),
    )
    render(report, form, sys.stdout)
    return exit_status(report.checks, fail_on, exit_policy)


def _split(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part for word in words for part in word.replace(",", " ").split())
