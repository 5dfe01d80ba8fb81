"""`aidiag daemon`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click


@click.command("daemon")
@click.option("--port", type=click.IntRange(0, 65535), envvar="AIDIAG_PORT", help="Port of metrics and pages (9877).")
@click.option("--listen", default="", help="Address to listen on (127.0.0.1).")
@click.option("--node-name", default="", envvar="NODE_NAME", help="This host's name, where hostname(1) is a pod's.")
@click.option(
    "--job-folder", type=click.Path(path_type=Path, exists=True, file_okay=False), help="A job folder to follow."
)
@click.option(
    "--records", type=click.Path(path_type=Path), multiple=True, help="Folder of shim records; may be repeated."
)
@click.option(
    "--log", "logs", type=click.Path(path_type=Path), multiple=True, help="Log file to follow; may be repeated."
)
@click.option("--lang", default="", help="Language of the texts: en or zh (the locale's).")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="Settings file.")
def daemon_command(
    port: int | None,
    listen: str,
    node_name: str,
    job_folder: Path | None,
    records: tuple[Path, ...],
    logs: tuple[Path, ...],
    lang: str,
    config_file: Path | None,
) -> None:
    """Watch all jobs of this host until SIGTERM."""
    from aidiag.diagnose.config import load
    from aidiag.diagnose.sidecar.watch_host import Places, main

    config = load(config_file)
    config = replace(config, lang=lang or config.lang, listen=listen or config.listen)
    main(config, Places(records, logs, job_folder), port=port, host=node_name)
