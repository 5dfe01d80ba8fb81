"""`aidiag env`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from aidiag.diagnose.run.shells import ABROAD, FORMATS


@click.command("env")
@click.option("--shell", type=click.Choice(list(FORMATS)), default="sh", help="For whom; sh is bash and zsh too.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the job folder is ($AIDIAG_OUT, else the working directory).",
)
@click.option(
    "--inject",
    type=click.Path(path_type=Path),
    help="Where the job finds the shim (this installation's; in an image: what `aidiag shim export` made).",
)
@click.option("--nccl/--no-nccl", default=True, help="Let NCCL log into the job folder, where it is not set otherwise.")
def env_command(shell: str, out: Path | None, inject: Path | None, nccl: bool) -> None:
    """Print the variables that put a job under watch; starts nothing.

    In a launcher: eval "$(aidiag env)". The same for csh: eval `aidiag env --shell csh`; fish: aidiag env --shell fish
    | source. `--shell docker` prints arguments for docker run, `--shell k8s` the env list of a container.
    """
    from aidiag.diagnose.run.environment import NCCL_LOGGING, additions, nccl_conf_names
    from aidiag.diagnose.run.prepare import host_folder
    from aidiag.trainer_shim.export import INJECT
    from aidiag.trainer_shim.identity import job_id

    environ = dict(os.environ)
    job = job_id(environ, str(Path.cwd()))
    inject = (inject or INJECT).absolute()
    if shell in ABROAD:
        variables = additions({}, job=job, inject=inject)
        if out is not None:
            variables["AIDIAG_OUT"] = str(out.absolute())
    else:
        folder = host_folder(out, environ, job, os.uname().nodename, _say)
        names = nccl_conf_names(environ) if nccl else NCCL_LOGGING
        variables = additions(environ, job=job, inject=inject, folder=folder, nccl_settings=names)
    sys.stdout.buffer.write(FORMATS[shell](variables).encode(errors="surrogateescape"))


def _say(text: str) -> None:
    print(f"aidiag: {text}", file=sys.stderr)
