"""`aidiag version`."""

from __future__ import annotations

import platform

import click

from aidiag import __version__


@click.command("version")
@click.option("--json", "as_json", is_flag=True, help="As JSON, with what each collector can see here.")
def version_command(as_json: bool) -> None:
    """Print the version, and with --json what each collector can see here and what would make it see."""
    if not as_json:
        click.echo(f"aidiag {__version__} (Python {platform.python_version()})")
        return
    import msgspec

    from aidiag.collectors import COLLECTORS, registry
    from aidiag.collectors.collector import Context
    from aidiag.collectors.live import LiveNode
    from aidiag.collectors.runner import run_once

    context = Context(LiveNode())
    outcomes = run_once([collector(context) for collector in COLLECTORS.values()])
    seen = [
        {"collector": o.collector, "state": o.state, "reason": o.reason, "remedy": o.remedy}
        for o in outcomes.values()
    ]  # fmt: skip
    body = {
        "aidiag": __version__,
        "python": platform.python_version(),
        "signals": len(registry().signals),
        "collectors": seen,
    }
    click.echo(msgspec.json.format(msgspec.json.encode(body)).decode())
