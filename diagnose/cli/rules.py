"""`aidiag rules`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click


class RulesError(Exception):
    """Rules that do not load or whose tests fail; the lines on stdout say which."""


@click.group("rules")
def rules_command() -> None:
    """List, check and test rules."""


@rules_command.command("list")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="Settings file.")
@click.option("--lang", default="")
def list_rules(config_file: Path | None, lang: str) -> None:
    """The rules in force: id, severity, scope, cause, title."""
    from aidiag.collectors import registry
    from aidiag.diagnose.config import load
    from aidiag.diagnose.report.words import language
    from aidiag.diagnose.rulebook import load_rulebook, rule_errors
    from aidiag.rules.texts import in_language

    config = load(config_file)
    book = load_rulebook(registry(), config)
    key = language(lang or config.lang)
    width = max((len(rule.id) for rule in book.rules), default=0)
    for rule in sorted(book.rules, key=lambda rule: rule.id):
        title = in_language(rule.title, key)
        click.echo(f"{rule.id:<{width}}  {rule.severity:<8}  {rule.scope:<4}  {rule.cause:<22}  {title}")
    for error in rule_errors(book):
        click.echo(f"left out: {error}", err=True)


@rules_command.command("lint")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
def lint_rules(paths: tuple[Path, ...]) -> None:
    """Check rule files (default: the built-in ones); one line an error, status 3 where there is one."""
    from aidiag.collectors import registry
    from aidiag.rules.loader import load_rules

    files = list(_files(paths))
    book = load_rules(files, registry(), built_in=False)
    for error in book.errors:
        click.echo(str(error))
    if book.errors:
        broken = len({error.path for error in book.errors})
        raise RulesError(f"{len(book.errors)} errors; {broken} of {len(files)} rule files cannot be used")
    click.echo(f"{len(files)} rule files are right")


@rules_command.command("test")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--verbose", "-v", is_flag=True, help="Show the tests that passed too.")
def test_rules(paths: tuple[Path, ...], verbose: bool) -> None:
    """Run the tests inside rule files (default: the built-in ones); status 3 where one fails."""
    from aidiag.collectors import registry
    from aidiag.rules.selftest import run_file

    known = registry()
    failed = passed = 0
    for path in _files(paths):
        for result in run_file(path, known):
            failed, passed = failed + (not result.ok), passed + result.ok
            if verbose or not result.ok:
                word = "ok" if result.ok else "FAILED"
                click.echo(f"{word}  {result.rule}: {result.test}" + (f": {result.message}" if result.message else ""))
    click.echo(f"{passed} passed, {failed} failed")
    if failed:
        raise RulesError(f"{failed} rule tests failed")


def _files(paths: tuple[Path, ...]) -> Iterator[Path]:
    """Rule files: the given ones, those in given folders, else the built-in ones. Raises RulesError for a missing path."""
    from aidiag.rules.loader import BUILT_IN

    for path in paths or (BUILT_IN,):
        if path.is_dir():
            yield from sorted(file for file in path.rglob("*.yaml") if not file.name.startswith("."))
        elif path.exists():
            yield path
        else:
            raise RulesError(f"{path}: there is no such file or folder; give a rule file or a folder of them")
