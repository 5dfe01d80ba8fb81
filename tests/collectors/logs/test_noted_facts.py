"""Facts that somebody noted beside the logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidiag.collectors.logs.noted_facts import FACTS_LIMIT, noted_facts


def told(folder: Path, text: str) -> list[str]:
    """The facts of a host.txt with this text."""
    (folder / "host.txt").write_text(text)
    return [str(event.fields["text"]) for event in noted_facts(folder / "host.txt", "host.txt")]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("# pfc: off", "pfc: off "),
        ("# ECC_uncorrected: 0", "ecc uncorrected: 0 "),
        ('# mtu: {"node-a": 9000, "node-b": 1500}', "mtu: node-a 9000 node-b 1500 differ "),
        ('# mtu: {"node-a": 1500, "node-b": 1500}', "mtu: node-a 1500 node-b 1500 "),
        ('# memory_peers: {"node-a": null}', "memory peers: node-a null "),
        ('# offload: ["optimizer", "param"]', "offload: optimizer param "),
        ("# NCCL_P2P_DISABLE=1: works", "nccl p2p disable=1: works "),
        ("# broken: {not json", "broken: {not json "),
    ],
)
def test_a_fact_is_told_as_prose(tmp_path: Path, line: str, text: str) -> None:
    """Names of anybody's choosing and JSON become words; values that differ between hosts are said to differ."""
    assert [text] == told(tmp_path, line + "\n")


def test_evidence_is_the_line_as_it_stands(tmp_path: Path) -> None:
    """The place of a fact names its line, so that a reader finds it."""
    (tmp_path / "host.txt").write_text("$ uname\nLinux\n# PFC: off\n")
    (event,) = noted_facts(tmp_path / "host.txt", "a/host.txt", "j")

    assert event.place is not None
    assert ("a/host.txt", 3, "# PFC: off") == (event.place.source, event.place.line, event.place.text)
    assert event.subject is not None
    assert "j" == event.subject.job


@pytest.mark.parametrize(
    "line", ["# seen: it hangs", "# a comment", "$ cmd: x", "#name: value", "# name:value", "# : x"]
)
def test_other_lines_are_no_facts(tmp_path: Path, line: str) -> None:
    """Notes are messages of the catalogue already, and comments and commands say nothing."""
    assert [] == told(tmp_path, line + "\n")


def test_what_is_no_text_or_too_much_is_passed_over(tmp_path: Path) -> None:
    """A line that is no text has no fact, since nobody could find it again; of very many facts the first ones are told."""
    (tmp_path / "host.txt").write_bytes(b"# a: \xff\xfe\n# b: c\n")
    assert ["b: c "] == [event.fields["text"] for event in noted_facts(tmp_path / "host.txt", "host.txt")]
    assert FACTS_LIMIT == len(told(tmp_path, "# a: b\n" * (FACTS_LIMIT + 5)))
    assert [] == told(tmp_path, "#" * (300 << 10) + "\n# a: b\n")
