"""Waivers: faults that an operator knows and accepts until a day. They are shown as waived, never hidden."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

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


def _day(text: str) -> date | None:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
