"""Waivers: faults that an operator knows and accepts until a day. They are shown as waived, never hidden."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from aidiag.rules.finding import Finding
from aidiag.rules.loading.document import read_document
from aidiag.rules.loading.errors import LARGEST_BYTES, RuleError
from aidiag.rules.loading.reader import Reader

KEYS = ("id", "target", "until", "reason")
ANY = "*"


@dataclass(frozen=True, slots=True)
class Waiver:
    """`id` is that of a rule or a check, `target` a target of it or `*`, `until` the last day on which it counts."""

    id: str
    target: str
    until: date
    reason: str

    def covers(self, fault_id: str, target: str, today: date) -> bool:
        """Whether a fault is waived today."""
        return self.id == fault_id and self.target in (ANY, target) and today <= self.until


def load_waivers(path: Path) -> tuple[list[Waiver], list[RuleError]]:
    """The waivers of a file (a list of mappings), and what is wrong with it. A wrong entry is left out."""
    try:
        with open(path, "rb") as stream:
            document = read_document(path, stream.read(LARGEST_BYTES + 1))
    except OSError as error:
        return [], [RuleError(str(path), 0, 0, f"cannot be read: {error.strerror}")]
    except RuleError as error:
        return [], [error]
    reader = Reader(document)
    found: list[Waiver] = []
    for number in range(len(reader.items(()))):
        before = len(reader.errors)
        reader.known_keys((number,), KEYS)
        words = [reader.text((number, key)) for key in ("id", "until", "reason")]
        target = reader.text((number, "target"), ANY)
        until = _day(words[1])
        if words[1] and until is None:
            reader.fault((number, "until"), f"{words[1]} is no day", "write 2027-01-31")
        if until is not None and len(reader.errors) == before:
            found.append(Waiver(words[0], target, until, words[2]))
    return found, reader.errors


def waiver_for(waivers: Sequence[Waiver], fault_id: str, target: str, today: date) -> Waiver | None:
    """The waiver that covers a fault today, None where there is none or it has expired."""
    return next((waiver for waiver in waivers if waiver.covers(fault_id, target, today)), None)


def blames(finding: Finding) -> tuple[str, ...]:
    """The names of all that a finding blames, as waivers write them: targets, else ranks, else hosts, else `*`."""
    culprit = finding.culprit
    if culprit is None:
        return (ANY,)
    return culprit.targets or tuple(map(str, culprit.ranks)) or culprit.hosts or (ANY,)


def waived(finding: Finding, waivers: Sequence[Waiver], today: date) -> Finding:
    """The finding, as information where an operator has waived it for all whom it blames: shown, never alarming."""
    mine = [waiver for waiver in waivers if waiver.covers(finding.rule, waiver.target, today)]
    if not mine:
        return finding
    covering = [waiver_for(mine, finding.rule, target, today) for target in blames(finding)]
    first = covering[0]
    if first is None or None in covering:
        return finding
    return replace(finding, severity="info", title=f"{finding.title} (waived until {first.until}: {first.reason})")


def _day(text: str) -> date | None:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
