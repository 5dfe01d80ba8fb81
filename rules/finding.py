"""Findings: what the rules say. This is the contract that reports, /metrics and other tools build on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from aidiag.collectors.subject import SubjectKind

Severity = Literal["info", "warning", "critical"]

SEVERITIES: tuple[Severity, ...] = get_args(Severity)


@dataclass(frozen=True, slots=True)
class Culprit:
    """What is to blame. `targets` are GPUs, ports, interfaces, mounts or variables in the spelling of Subject.name."""

    kind: SubjectKind
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """One piece of evidence. Where `line` is a number, that line of `source` (from 1) holds `text`; where it is None,
    `source` names a measurement and `text` says what was read.
    """

    source: str
    line: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a remedy: what to do, the command or setting for it, and how to see that it helped."""

    do: str
    command: str = ""
    confirm: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One diagnosed fault.

    `id` is the same for the same fault in every report of a job (rule, job and culprit). `cause` is a label of
    cases/LABELS.md, `rule` the id of the rule that found it. `confidence` is in 0-1. `since` and `found_at` are Unix
    seconds, None where a log has no time. `explains` and `explained_by` are ids of other findings.
    """

    id: str
    cause: str
    rule: str
    severity: Severity
    confidence: float
    title: str
    summary: str
    culprit: Culprit | None
    since: float | None
    found_at: float | None
    evidence: tuple[Evidence, ...]
    why: str
    remedy: tuple[Step, ...]
    explains: tuple[str, ...] = ()
    explained_by: str | None = None
