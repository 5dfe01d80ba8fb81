"""The cache of parsed rules: quick, and never wrong."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import aidiag
from aidiag.collectors.signal import Registry, Signal
from aidiag.rules import loader
from aidiag.rules.loader import load_rules
from aidiag.rules.loading import cache
from aidiag.rules.model import Rule

RULE = """\
id: long_queue
cause: util_input_bound
title: The queue is long
severity: warning
scope: rank
thresholds: {most: 5}
when: queue > most
summary: long
why: long
remedy: [{do: shorten it}]
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """A folder with one rule."""
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "long_queue.yaml").write_text(RULE)
    return folder


@pytest.fixture
def no_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsing a rule file fails the test."""

    def refuse(*_: object) -> None:
        raise AssertionError("a file was parsed")

    monkeypatch.setattr(loader, "_parse", refuse)


def load(rules: Path, registry: Registry, folder: Path) -> tuple[Rule, ...]:
    """The rules of a folder through a cache."""
    book = load_rules([rules], registry, built_in=False, cache_folder=folder)
    assert not book.errors
    return book.rules


class TestHit:
    """What is in the cache is not parsed again."""

    def test_the_same_rules_come_back(self, rules: Path, small: Registry, tmp_path: Path) -> None:
        """A cached rule equals the parsed one, with its path."""
        parsed = load(rules, small, tmp_path / "cache")

        assert parsed == load(rules, small, tmp_path / "cache")
        assert str(rules / "long_queue.yaml") == parsed[0].path

    def test_nothing_is_parsed(
        self, rules: Path, small: Registry, tmp_path: Path, request: pytest.FixtureRequest
    ) -> None:
        """A second load reads no YAML."""
        load(rules, small, tmp_path / "cache")
        request.getfixturevalue("no_parsing")

        assert ("long_queue",) == tuple(rule.id for rule in load(rules, small, tmp_path / "cache"))


class TestMiss:
    """What was made from anything else is not found."""

    def test_a_changed_file(self, rules: Path, small: Registry, tmp_path: Path) -> None:
        """A file that changed is parsed, also when its size and time stayed."""
        load(rules, small, tmp_path / "cache")
        file = rules / "long_queue.yaml"
        times = file.stat()
        file.write_text(RULE.replace("most: 5", "most: 7"))
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))

        assert 7.0 == load(rules, small, tmp_path / "cache")[0].thresholds["most"].value

    def test_another_registry(self, rules: Path, small: Registry, tmp_path: Path) -> None:
        """With another unit of a signal the rule is checked anew, and refused."""
        load(rules, small, tmp_path / "cache")
        signals = dict(small.signals) | {"queue": Signal("queue", "gauge", "seconds", "rank", "")}
        other = Registry.of(signals.values(), small.events.values())

        book = load_rules([rules], other, built_in=False, cache_folder=tmp_path / "cache")

        assert "seconds is compared with a plain number" in str(book.errors[0])

    def test_other_code(self, rules: Path, small: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Rules that another version of the code parsed are not taken."""
        load(rules, small, tmp_path / "cache")
        parsed: list[Path] = []
        original = loader._parse

        def note(file: Path, *rest: Any) -> Any:
            parsed.append(file)
            return original(file, *rest)

        monkeypatch.setattr(loader, "_parse", note)
        monkeypatch.setattr(aidiag, "__version__", "0.0.0")

        load(rules, small, tmp_path / "cache")

        assert [rules / "long_queue.yaml"] == parsed


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "foreign format", "link", "writable", "folder"])
def test_a_damaged_cache_is_ignored(rules: Path, small: Registry, tmp_path: Path, damage: str) -> None:
    """A cache that is damaged, not ours alone, or no file at all is as good as none."""
    folder = tmp_path / "cache"
    parsed = load(rules, small, folder)
    file = folder / "rules.cache"
    content = file.read_bytes()
    match damage:
        case "cut":
            file.write_bytes(content[:-5])
        case "flipped":
            file.write_bytes(content[:60] + bytes([content[60] ^ 1]) + content[61:])
        case "empty":
            file.write_bytes(b"")
        case "foreign format":
            file.write_bytes(b"\x80\x04." + content)
        case "link":
            (tmp_path / "elsewhere").write_bytes(content)
            file.unlink()
            file.symlink_to(tmp_path / "elsewhere")
        case "writable":
            file.chmod(0o666)
        case "folder":
            file.unlink()
            file.mkdir()

    assert {} == cache.load(folder)
    assert parsed == load(rules, small, folder)


def test_a_cache_that_cannot_be_written_is_done_without(rules: Path, small: Registry, tmp_path: Path) -> None:
    """Where no cache can be kept, rules are loaded all the same."""
    (tmp_path / "file").write_text("")

    assert 1 == len(load(rules, small, tmp_path / "file" / "cache"))


def test_the_cache_is_private_and_bounded(
    rules: Path, small: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache belongs to its user alone and keeps the rules in use when there are too many."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(cache, "MOST_RULES", 3)
    for number in range(6):
        (rules / "long_queue.yaml").write_text(RULE.replace("most: 5", f"most: {number}"))
        load(rules, small, folder)

    assert 0o700 == folder.stat().st_mode & 0o777
    assert 0o600 == (folder / "rules.cache").stat().st_mode & 0o777
    kept = cache.load(folder)
    assert 3 == len(kept)
    assert 5.0 in {rule.thresholds["most"].value for rule in map(cache.decoded, kept.values()) if rule}
