"""`aidiag shim`."""

from __future__ import annotations

from pathlib import Path

import click


@click.group("shim", no_args_is_help=False)
def shim_command() -> None:
    """Copy the trainer shim to where the training image finds it."""


@shim_command.command("export")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def export_command(folder: Path) -> None:
    """Copy the shim into FOLDER; training started with PYTHONPATH=FOLDER/trainer_shim/inject is then under watch.

    The image needs no aidiag then.
    """
    from aidiag.trainer_shim.export import export

    click.echo(f"PYTHONPATH={export(folder.absolute())}")
