"""Whom a finding concerns, in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from aidiag.collectors.subject import Subject

MOST_RANKS = 65_536

_RUN = re.compile(r"(\d{1,7})(?:\s?-\s?(\d{1,7}))?")
_RANKS = re.compile(rf"\s*{_RUN.pattern}(?:[,\s]+{_RUN.pattern})*\s*")


def places(subjects: Sequence[Subject], lead: Subject | None, job: str, language: str) -> dict[str, Any]:
    """The names that every template knows (texts.BUILT_IN)."""
    numbers = sorted({rank for subject in subjects if (rank := subject.rank) is not None})
    hosts = sorted({subject.host for subject in subjects if subject.host})
    names = sorted({subject.name for subject in subjects})
    return {
        "who": who(subjects, language),
        "rank": None if lead is None or lead.rank is None else str(lead.rank),
        "ranks": ranges(numbers),
        "host": (lead.host if lead else "") or None,
        "hosts": ", ".join(hosts) or None,
        "targets": ", ".join(names) or None,
        "job": job or None,
        "subjects": float(len(subjects)),
    }


def who(subjects: Sequence[Subject], language: str) -> str:
    """Subjects in words: `rank 1 on node-a`, `ranks 0-7`, `gpu3 on node-a`."""
    chinese = language.startswith("zh")
    if not subjects:
        return "某个进程" if chinese else "a process that is not known"
    first, hosts = subjects[0], sorted({subject.host for subject in subjects if subject.host})
    numbers = sorted({rank for subject in subjects if (rank := subject.rank) is not None})
    if numbers:
        what = f"rank{'' if len(numbers) == 1 or chinese else 's'} {ranges(numbers)}"
    else:
        what = ", ".join(sorted({subject.name for subject in subjects}))
        if first.kind in ("host", "job"):
            word = {"host": "主机", "job": "作业"}[first.kind] if chinese else first.kind
            return f"{word} {what}"
    if len(hosts) != 1:
        return what
    return f"{hosts[0]} 上的 {what}" if chinese else f"{what} on {hosts[0]}"


def ranges(numbers: Sequence[int]) -> str:
    """Sorted numbers in words: `0-3, 7`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def ranks_in(value: object) -> tuple[int, ...]:
    """The ranks that a number or a text such as `3`, `0-2, 5` or `1 4` names; none where it says something else."""
    text = f"{value:.0f}" if isinstance(value, float) else str(value)
    if value is None or not _RANKS.fullmatch(text):
        return ()
    found: set[int] = set()
    for low, high in _RUN.findall(text):
        found.update(range(int(low), min(int(high or low), int(low) + MOST_RANKS) + 1))
    return tuple(sorted(found))
