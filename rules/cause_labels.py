"""The causes that findings may name, with what each one means (`causes.tsv`)."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from aidiag.rules.texts import Text

FILE = Path(__file__).with_name("causes.tsv")
MISSPELT = 0.85
"""How alike a cause must be to a known one to be taken for that one misspelt; rules of operators may name their own."""


@cache
def cause_labels() -> Mapping[str, Text]:
    """What each cause means, by language key."""
    with open(FILE, encoding="utf-8", newline="") as stream:
        rows = csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
        return {row.pop("cause"): row for row in rows}


def meant_cause(word: str) -> str | None:
    """The known cause for which `word` is a misspelling, None where it is known or unlike all."""
    if word in cause_labels():
        return None
    close = difflib.get_close_matches(word, cause_labels(), n=1, cutoff=MISSPELT)
    return close[0] if close else None
