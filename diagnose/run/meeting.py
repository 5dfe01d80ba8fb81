"""Telling two jobs apart that were started in the same folder, by where their ranks meet.

A job that no scheduler names has an id made of its start directory (trainer_shim.identity). On one host a second
`aidiag run` there is a job of its own, unless a launcher has started both or their commands name one meeting point.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from aidiag.collectors.run_files import RunFile
from aidiag.diagnose.run.task import Task

_HOSTS = ("nnodes", "num-machines")
"""How many hosts a launcher is told to wait for: torchrun, accelerate launch."""
_PLACES = (
    "rdzv-id", "rdzv-endpoint", "master-addr", "master-port", "main-process-ip", "main-process-port",
    "init-method", "dist-init-method", "dist-url",
)  # fmt: skip
"""Where it is told to wait for them; scripts that start one rank each have options for it, too."""
_RANKS = ("rank", "init-method", "dist-init-method", "dist-url")
"""By these a command is one rank of several, though no variable says so."""
_RANK_PLACES = ("MASTER_ADDR", "MASTER_PORT")


UNNAMED = "unnamed"
"""Where one of several ranks meets the others is known to its script alone."""


def meeting_of(command: Sequence[str], environ: Mapping[str, str], rank: int | None) -> str:
    """Where the ranks of a command meet those of other commands; empty where nothing says so.

    A rank that something else has started (`rank`) meets at MASTER_ADDR and MASTER_PORT, a launcher of one host of
    several, and a script that is told its rank, at what its options name, else there, too.
    """
    options = dict(_options(command))
    several = any(options.get(name, "1") not in ("1", "1:1") for name in _HOSTS) or any(
        one in options for one in _RANKS
    )
    if rank is None and several and (named := [f"{name}={options[name]}" for name in _PLACES if name in options]):
        return " ".join(named)
    if (rank is not None or several) and "MASTER_PORT" in environ:
        return ":".join(environ.get(name, "") for name in _RANK_PLACES)
    return UNNAMED if rank is None and several else ""


def is_another_job(mine: Task, other: RunFile) -> bool:
    """Whether a run that is at work under the id of `mine` belongs to another job."""
    meeting = meeting_of(mine.command, mine.environ, mine.rank)
    if meeting and other.meeting:
        return meeting != other.meeting
    return mine.rank is None and mine.host == other.host


def _options(command: Sequence[str]) -> Iterable[tuple[str, str]]:
    """The options of a command line with their values, in either spelling of torch (`--rdzv-id`, `--rdzv_id`)."""
    following = [*command[1:], ""]
    for word, after in zip(command, following, strict=True):
        if word.startswith("-"):
            name, equals, value = word.lstrip("-").partition("=")
            yield name.replace("_", "-"), value if equals else after
