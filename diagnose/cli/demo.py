"""`aidiag demo`."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

import click

FAULTS = ("slow-loader", "straggler", "dead-rank", "healthy")


@click.command("demo")
@click.argument("fault", type=click.Choice(FAULTS), default=FAULTS[0])
@click.option("--ranks", type=click.IntRange(1, 64), default=2, show_default=True)
@click.option("--seconds", type=click.FloatRange(5, 3600), default=30.0, show_default=True, help="How long to train.")
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), help="Keep the job folder here.")
@click.option("--lang", help="Language of the report: en or zh.")
def demo_command(fault: str, ranks: int, seconds: float, keep: Path | None, lang: str | None) -> None:
    """Train a small model on this CPU with a FAULT (slow-loader), under `aidiag run`, and show the diagnosis.

    Ends with status 0 when the report says what was planted. Needs torch.
    """
    from aidiag.diagnose.demo.faults import FAULTS as KNOWN
    from aidiag.diagnose.demo.show import run_demo

    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    with nullcontext(str(keep)) if keep else TemporaryDirectory(prefix="aidiag-demo-") as place:
        run_demo(KNOWN[fault], Path(place), ranks=ranks, seconds=seconds, lang=lang)
    if keep is None:
        click.echo("The job folder is removed now; --keep DIR keeps it.")
