"""`aidiag run`."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import click


@click.command("run", context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False})
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Port of the sidecar's pages and metrics ($AIDIAG_PORT, else 9877)."
)
@click.option("--report", type=click.Path(path_type=Path, dir_okay=False), help="Also write the report to this file.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where to put the job folder ($AIDIAG_OUT, else the working directory).",
)
@click.option("--quiet", is_flag=True, help="Print nothing of our own on stderr.")
@click.option("--lang", help="Language of the findings: en or zh (the locale's).")
@click.option("--sidecar-command", hidden=True, help="What to start as the sidecar, in the words of a shell.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
def run_command(
    port: int | None,
    report: Path | None,
    out: Path | None,
    quiet: bool,
    lang: str | None,
    sidecar_command: str | None,
    command: tuple[str, ...],
) -> int:
    """Run CMD under watch. Its output and exit status are as without.

    Findings are printed on stderr with the prefix `aidiag:`. The job folder aidiag-<job id>/ keeps the output, NCCL's
    logs, the findings and the report.
    """
    try:
        from aidiag.diagnose.run.launch import launch
        from aidiag.diagnose.run.task import SIDECAR_COMMAND, Settings
    except Exception as problem:  # noqa: BLE001 # a broken installation is no reason not to train
        print(f"aidiag: the command runs without a watch: {problem}", file=sys.stderr, flush=True)
        os.execvp(command[0], command)
    sidecar = tuple(shlex.split(sidecar_command)) if sidecar_command else SIDECAR_COMMAND
    port = _port(os.environ.get("AIDIAG_PORT", "")) if port is None else port
    return launch(command, Settings(out, report, port, quiet, lang, sidecar))


def _port(text: str) -> int | None:
    """The port in AIDIAG_PORT. One that cannot be used is told and left out: the command runs all the same."""
    if not text:
        return None
    if text.isdecimal() and int(text) <= 65535:
        return int(text)
    print(f"aidiag: AIDIAG_PORT={text!r} is no port and is left out; give 0 to 65535", file=sys.stderr, flush=True)
    return None
