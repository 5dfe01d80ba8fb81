"""`aidiag diagnose`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

SEVERITY_STATUS = {"info": 0, "warning": 1, "critical": 2}


@click.command("diagnose")
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option("--slurm", "jobs", multiple=True, metavar="JOBID", help="Ask Slurm for a job: its record and its logs.")
@click.option("--pod", "pods", multiple=True, metavar="NAME", help="Ask Kubernetes for a pod: its record and its logs.")
@click.option("-n", "--namespace", default="", help="The namespace of --pod (that of the current context).")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Where answers of --slurm and --pod go (a temporary folder)."
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to print the report.")
@click.option("--exit-code", is_flag=True, help="Exit 0, 1 or 2 by the worst severity found.")
@click.option("--why", is_flag=True, help="Show how the causes were ranked.")
@click.option("--lang", default="", help="Language of the texts: en or zh (the locale's).")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="Settings file.")
def diagnose_command(
    paths: tuple[str, ...],
    jobs: tuple[str, ...],
    pods: tuple[str, ...],
    namespace: str,
    out: Path | None,
    form: str,
    exit_code: bool,
    why: bool,
    lang: str,
    config_file: Path | None,
) -> int:
    """Say what went wrong in a job folder, an incident folder or a log; `-` reads standard input.

    Logs may be compressed (gzip, xz, bzip2, zstd). With --slurm or --pod aidiag fetches what the scheduler knows, with the
    tools that you have; its answers stay where evidence points at them.
    """
    from aidiag.collectors import registry
    from aidiag.diagnose.config import load
    from aidiag.diagnose.fetch import Fetched, fetch
    from aidiag.diagnose.post_mortem import diagnose
    from aidiag.diagnose.report.model import encode
    from aidiag.diagnose.report.progress import Progress
    from aidiag.diagnose.report.ranking import ranking
    from aidiag.diagnose.report.terminal import render
    from aidiag.diagnose.report.words import language
    from aidiag.diagnose.rulebook import load_rulebook
    from aidiag.rules.causes import links_of

    if not paths and not jobs and not pods:
        raise click.UsageError("missing argument 'PATH...' (or --slurm JOBID, or --pod NAME)")
    config = load(config_file)
    key = language(lang or config.lang)
    fetched = fetch(jobs, pods, namespace, out) if jobs or pods else Fetched()
    everything = (*paths, *map(str, fetched.paths))
    report = diagnose(
        everything, config, key, sys.stdin.buffer, Progress(sys.stderr), fetched.gaps, fetched=bool(jobs or pods)
    )
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
