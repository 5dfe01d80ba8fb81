"""`aidiag explain`."""

from __future__ import annotations

import click


@click.command("explain")
@click.argument("name", metavar="ID")
@click.option("--lang", default="", help="Language of the texts: en or zh (the locale's).")
def explain_command(name: str, lang: str) -> None:
    """Tell all about a rule, a cause, a check or a log message."""
    from aidiag.diagnose.explain import explain
    from aidiag.diagnose.report.words import language

    for line in explain(name, language(lang)):
        click.echo(line)
