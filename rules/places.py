"""Whom a finding concerns, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aidiag.collectors.subject import Subject


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
