"""The rules in force: the built-in ones, the operator's, and the operator's thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aidiag.collectors.signal import Registry
from aidiag.collectors.user_cache import cache_folder
from aidiag.diagnose.config import Config
from aidiag.rules.loader import load_rules
from aidiag.rules.model import RuleBook

if TYPE_CHECKING:
    from aidiag.rules.waivers import Waiver


def load_rulebook(registry: Registry, config: Config) -> RuleBook:
    """All rules. What is wrong with an operator's file is in `errors`; the other rules are in force all the same."""
    folders = [config.rules_folder] if config.rules_folder.is_dir() else []
    return load_rules(
        folders, registry, thresholds=config.rules, cache_folder=cache_folder(), own_only=True
    )  # fmt: skip


def load_waivers_of(config: Config) -> tuple[list[Waiver], list[str]]:
    """The operator's waivers, and one line for each that is left out."""
    if not config.waivers_file.is_file():
        return [], []
    from aidiag.rules.waivers import load_waivers  # YAML is not needed where there are none

    waivers, errors = load_waivers(config.waivers_file)
    return waivers, [str(error) for error in errors]


def rule_errors(book: RuleBook) -> Sequence[str]:
    """One line for each file or setting that is left out."""
    return [str(error) for error in book.errors]
