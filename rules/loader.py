"""Loading rules: the built-in ones, then an operator's, which add to them, replace them by id, or switch them off."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from aidiag.collectors.signal import Registry
from aidiag.collectors.user_cache import cache_folder
from aidiag.rules.loading import cache
from aidiag.rules.loading.errors import LARGEST_BYTES, RuleError
from aidiag.rules.model import Rule, RuleBook, Threshold

BUILT_IN = Path(__file__).resolve().parent
"""The folder of the rules that aidiag brings along."""


def load_rules(
    paths: Iterable[Path | str],
    registry: Registry,
    *,
    built_in: bool = True,
    thresholds: Mapping[str, Mapping[str, Any]] | None = None,
    cache_folder: Path | None = None,
    own_only: bool = False,
) -> RuleBook:
    """The rules of files and folders (`*.yaml`, all levels), later ones before earlier ones of the same id.

    Built-in rules come first where `built_in` is true. A file with `enabled: false` and the id of a rule switches it
    off. `thresholds` holds an operator's constants by rule id and name. With `own_only`, files of `paths` that belong
    neither to root nor to this user, or that others may write, are refused. A file that is broken is left out and
    reported in `RuleBook.errors`; nothing is raised. Parsed rules are kept in `cache_folder` where one is given.
    """
    reading = _Reading(registry, cache_folder)
    if built_in:
        reading.take(_files(BUILT_IN))
    for path in paths:
        reading.take(_files(Path(path)), own_only=own_only)
    reading.remember()
    rules, errors = _with_thresholds(reading.rules, thresholds or {})
    return RuleBook(tuple(rules), (*reading.errors, *errors))


def load_builtin(registry: Registry) -> RuleBook:
    """The built-in rules, from the user's cache where it has them."""
    return load_rules((), registry, cache_folder=cache_folder())


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        found = [*path.rglob("*.yaml"), *path.rglob("*.yml")]
        return sorted(file for file in found if not file.name.startswith("."))
    return [path]


class _Reading:
    """Rules as they are read, by id."""

    def __init__(self, registry: Registry, cache_folder: Path | None) -> None:
        self.errors: list[RuleError] = []
        self._registry = registry
        self._folder = cache_folder
        self._by_id: dict[str, Rule] = {}
        self._made_with = cache.origin(registry)
        self._kept: cache.Kept = cache.load(cache_folder) if cache_folder else {}
        self._used: list[bytes] = []
        self._fresh = False

    @property
    def rules(self) -> list[Rule]:
        return list(self._by_id.values())

    def take(self, files: Iterable[Path], *, own_only: bool = False) -> None:
        """Read files. Within one call no two may have the same id."""
        seen: dict[str, str] = {}
        for file in files:
            try:
                if own_only:
                    _refuse_foreign(file)
                rule, off = self._read(file)
            except RuleError as error:
                self.errors.append(error)
                continue
            rule_id = off or (rule.id if rule else "")
            if not rule_id:
                continue
            if rule_id in seen:
                self.errors.append(RuleError(str(file), 1, 1, f"{rule_id} is in {seen[rule_id]} already", "rename it"))
                continue
            seen[rule_id] = str(file)
            if rule is not None:
                self._by_id[rule_id] = rule
            elif self._by_id.pop(rule_id, None) is None:
                self.errors.append(RuleError(str(file), 1, 1, f"there is no rule {rule_id} to switch off"))

    def _read(self, file: Path) -> tuple[Rule | None, str]:
        """The rule of a file, or the id of the rule that it switches off."""
        try:
            if not file.is_file():  # a pipe would be waited for
                raise RuleError(str(file), 0, 0, "is not a regular file" if file.exists() else "there is no such file")
            with open(file, "rb") as stream:
                content = stream.read(LARGEST_BYTES + 1)
        except OSError as error:
            raise RuleError(str(file), 0, 0, f"cannot be read: {error.strerror}") from None
        key = cache.key_of(content, self._made_with)
        kept = self._kept.get(key)
        known = cache.decoded(kept) if kept is not None else None
        if known is not None:
            self._used.append(key)
            return replace(known, path=str(file)), ""
        rule, off, errors = _parse(file, content, self._registry)
        self.errors += errors
        if rule is not None:
            self._kept[key] = cache.encoded(replace(rule, path=""))
            self._used.append(key)
            self._fresh = True
        return rule, off

    def remember(self) -> None:
        """Keep what was parsed anew."""
        if self._folder is not None and self._fresh:
            cache.save(self._folder, self._kept, self._used)


def _parse(file: Path, content: bytes, registry: Registry) -> tuple[Rule | None, str, list[RuleError]]:
    from aidiag.rules.loading.document import read_document  # YAML is not needed where the cache has the rule
    from aidiag.rules.loading.rule_file import read_rule

    document = read_document(file, content)
    if isinstance(document.data, dict) and document.data.get("enabled") is False:
        return None, str(document.data.get("id", "")), []
    rule, errors = read_rule(document, registry)
    return rule, "", errors


def _refuse_foreign(file: Path) -> None:
    try:
        status = file.stat()
    except OSError as error:
        raise RuleError(str(file), 0, 0, f"cannot be read: {error.strerror}") from None
    if status.st_uid not in (0, os.geteuid()):
        raise RuleError(str(file), 0, 0, "belongs to another user", "give it to root: chown root")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise RuleError(str(file), 0, 0, "others may write it", "chmod go-w")


def _with_thresholds(rules: list[Rule], chosen: Mapping[str, Mapping[str, Any]]) -> tuple[list[Rule], list[RuleError]]:
    if not chosen:
        return rules, []
    from aidiag.rules.expression.errors import ExpressionError, did_you_mean
    from aidiag.rules.loading.rule_file import read_threshold, type_of

    errors: list[RuleError] = []
    by_id = {rule.id: rule for rule in rules}
    for rule_id, values in chosen.items():
        rule = by_id.get(rule_id)
        place = f"[rules.{rule_id}]"
        if rule is None:
            errors.append(RuleError(place, 0, 0, "there is no such rule", did_you_mean(rule_id, by_id)))
            continue
        found: dict[str, Threshold] = {}
        for name, value in values.items():
            known = rule.thresholds.get(name)
            if known is None:
                hint = did_you_mean(name, rule.thresholds) or f"it has: {', '.join(rule.thresholds) or 'none'}"
                errors.append(RuleError(place, 0, 0, f"the rule has no threshold {name}", hint))
                continue
            try:
                threshold = read_threshold(value, "set by the operator")
            except ExpressionError as error:
                errors.append(RuleError(place, 0, 0, f"{name}: {error.message}", error.hint))
                continue
            if type_of(threshold) != type_of(known):
                message = f"{name} is {type_of(threshold)}, expected is {type_of(known)}"
                errors.append(RuleError(place, 0, 0, message, f"write it like {known.text}"))
                continue
            found[name] = threshold
        by_id[rule_id] = rule.with_thresholds(found)
    return list(by_id.values()), errors
