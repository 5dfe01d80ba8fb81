"""`aidiag diagnose`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

SEVERITY_STATUS = {"info": 0, "warning": 1, "critical": 2}


@click.command("diagnose")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to print the report.")
@click.option("--exit-code", is_flag=True, help="Exit 0, 1 or 2 by the worst severity found.")
@click.option("--why", is_flag=True, help="Show how the causes were ranked.")
@click.option("--lang", default="", help="Language of the texts: en or zh (the locale's).")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="Settings file.")
def diagnose_command(
    paths: tuple[str, ...], form: str, exit_code: bool, why: bool, lang: str, config_file: Path | None
) -> int:
    """Say what went wrong in a job folder, an incident folder or a log; `-` reads standard input."""
    from aidiag.collectors import registry
    from aidiag.diagnose.config import load
    from aidiag.diagnose.post_mortem import diagnose
    from aidiag.diagnose.report.model import encode
    from aidiag.diagnose.report.ranking import ranking
    from aidiag.diagnose.report.terminal import render
    from aidiag.diagnose.report.words import language
    from aidiag.diagnose.rulebook import load_rulebook
    from aidiag.rules.causes import links_of

    config = load(config_file)
    key = language(lang or config.lang)
    report = diagnose(paths, config, key, sys.stdin.buffer)
    if form == "json":
        sys.stdout.write(encode(report).decode())
    else:
        render(report, sys.stdout, lang=key)
        if why:
            links = links_of(load_rulebook(registry(), config).rules)
            sys.stdout.writelines(f"{line}\n" for line in ranking(report, links, key))
    if not exit_code:
        return 0
    return max((SEVERITY_STATUS[finding.severity] for finding in report.findings), default=0)
