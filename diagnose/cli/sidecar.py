"""`aidiag sidecar`: started by `aidiag run`, not by people."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click


@click.command("sidecar")
@click.option("--job", required=True, help="Job id.")
@click.option("--host-folder", required=True, type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--lock-fd", type=int, help="An open descriptor that holds the folder's lock; kept open.")
@click.option("--port", type=click.IntRange(0, 65535))
@click.option("--lang", default="")
@click.option("--config", "config_file", type=click.Path(path_type=Path))
def sidecar_command(
    job: str, host_folder: Path, lock_fd: int | None, port: int | None, lang: str, config_file: Path | None
) -> None:
    """Watch one job on this host until its runs are over."""
    from aidiag.diagnose.config import Config, ConfigError, load
    from aidiag.diagnose.sidecar.watch_job import main

    broken: tuple[str, ...] = ()
    try:
        config = load(config_file)
    except ConfigError as problem:  # a job without a watch is worse than a watch with the usual settings
        config, broken = Config(), (str(problem),)
    main(job, host_folder, replace(config, lang=lang or config.lang), port=port, broken_settings=broken)
