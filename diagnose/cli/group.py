"""The table of commands, and how their failures end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn

import click

from aidiag import __version__

FAILURE = 3
INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Entry:
    """One command: the module of this room that holds it, under a name of the same spelling, and its short help."""

    module: str
    help: str
    hidden: bool = False


COMMANDS: dict[str, Entry] = {
    "run": Entry("run", "Run a training command under watch."),
    "env": Entry("env", "Print the variables that put a job under watch."),
    "shim": Entry("shim", "Copy the trainer shim into an image."),
    "daemon": Entry("daemon", "Watch all jobs of this host."),
    "check": Entry("check", "Look at this host once, before a job."),
    "diagnose": Entry("diagnose", "Say what went wrong, from a job folder, an incident folder or a log."),
    "explain": Entry("explain", "Tell all about a rule, a cause, a check or a log message."),
    "rules": Entry("rules", "List, check and test rules."),
    "demo": Entry("demo", "Run a small real job with a fault, and diagnose it."),
    "version": Entry("version", "Print the version, and what can be seen here."),
    "sidecar": Entry("sidecar", "Watch one job; started by run.", hidden=True),
}
"""In the order of `aidiag --help`. A new command is one line here and one module."""


class CommandTable(click.Group):
    """A group that knows its commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command. None where there is none of that name."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = getattr(import_module(f"aidiag.diagnose.cli.{entry.module}"), f"{cmd_name}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with the help of the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items() if not entry.hidden])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; for a misspelt one, say what may have been meant."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(f"no command {args[0]!r}{_meant(args[0])}; aidiag --help lists them", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=CommandTable, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="aidiag")
@click.pass_context
def group(ctx: click.Context) -> None:
    """Say what is wrong with a distributed training job, who is to blame, on what evidence, and what to do."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: with the command's own status, or 3 where aidiag failed."""
    _open_closed()
    words = list(sys.argv[1:] if arguments is None else arguments)
    sys.exit(_status(lambda: _call(words)))


def _call(words: list[str]) -> Any:
    """What click's own main does, which would end by itself, and with status 1, where a reader has gone."""
    try:
        with group.make_context("aidiag", words) as context:
            return group.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code


def _open_closed() -> None:
    """Let closed standard descriptors lead nowhere, so that no file of ours gets their number."""
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nowhere = open(os.devnull, "r" if fd == 0 else "w")  # noqa: SIM115 # for the life of the process
            os.dup2(nowhere.fileno(), fd)
            setattr(sys, name, nowhere)


def _status(work: Callable[[], Any]) -> int:
    debug = os.environ.get("AIDIAG_DEBUG") == "1"
    try:
        outcome = work()
        sys.stdout.flush()
        return outcome if isinstance(outcome, int) else 0
    except BrokenPipeError:
        return _reader_gone()
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except Exception as problem:
        if debug and not isinstance(problem, click.UsageError):
            raise
        print(f"aidiag: {failure(problem)}", file=sys.stderr)
        return FAILURE


def failure(problem: Exception) -> str:
    """What went wrong, in one line: where, what, and what to do, as far as the exception says."""
    if isinstance(problem, click.UsageError):
        path = problem.ctx.command_path.removeprefix("aidiag").strip() if problem.ctx else ""
        text = f"{path}: {problem.format_message()}" if path else problem.format_message()
    elif isinstance(problem, click.ClickException):
        text = problem.format_message()
    elif isinstance(problem, OSError) and problem.strerror:
        text = f"{problem.filename}: {problem.strerror}" if problem.filename else problem.strerror
    elif type(problem).__module__.startswith("aidiag."):
        text = str(problem) or type(problem).__name__
    else:
        text = f"internal error: {type(problem).__name__}: {problem} (AIDIAG_DEBUG=1 shows where)"
    remedy = getattr(problem, "remedy", "")
    text = f"{text}; {remedy}" if remedy else text
    from aidiag.diagnose.report.escape import one_line

    return one_line(" ".join(text.split())).encode("utf-8", "backslashreplace").decode()


def _reader_gone() -> int:
    """Whoever read our output has gone (`aidiag ... | head`): nothing is wrong, and nothing is left to say."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    return 0


def _meant(name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, [known for known, entry in COMMANDS.items() if not entry.hidden], n=1)
    return f", did you mean {close[0]!r}?" if close else ""
