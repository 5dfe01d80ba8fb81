"""The report: findings, what could not be seen, how far each rank got, and checks. A contract (`schema.json`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import msgspec

from aidiag.diagnose.report.escape import json_safe
from aidiag.diagnose.report.nccl_view import NcclView
from aidiag.rules.finding import Finding

RANKS_LIMIT = 1 << 20
REPORT_LIMIT_BYTES = 64 << 20
"""More than any report of ours has; larger files are none."""

SCHEMA: Final = "aidiag.report/v1"

CheckStatus = Literal["ok", "warning", "critical", "unknown", "skipped"]

UNRECOGNISED = "what the logs say"
"""What could not be seen where no line of the logs was recognised."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something that could not be seen: what, why, and what would make it visible."""

    what: str
    reason: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class RankRow:
    """How far one rank got. `state` is a word such as training, finished, killed, missing; times are Unix seconds."""

    rank: int
    host: str
    state: str
    phase: str | None = None
    steps: int | None = None
    step_seconds: float | None = None
    own_seconds: float | None = None
    pid: int | None = None
    last_seen: float | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """The verdict of one check on one target; ids are those of the check catalogue, `node` is the whole node.

    `waived` says until when and why an operator accepts a fault: it is shown as what it is, and raises no alarm.
    """

    id: str
    status: CheckStatus
    target: str = "node"
    observed: str = ""
    expected: str = ""
    reason: str = ""
    remedy: str = ""
    waived: str = ""


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What the report is about."""

    id: str = ""
    hosts: tuple[str, ...] = ()
    world_size: int | None = None
    command: str = ""
    exit_status: int | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """A diagnosis. `findings` are root causes, most probable first; `consequences` are what they explain.

    `nccl` is how NCCL was configured, where its lines were among the logs.
    """

    schema: Literal["aidiag.report/v1"] = SCHEMA
    version: str = ""
    made_at: float | None = None
    job: JobFacts = field(default_factory=JobFacts)
    findings: tuple[Finding, ...] = ()
    consequences: tuple[Finding, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    ranks: tuple[RankRow, ...] = ()
    checks: tuple[Check, ...] = ()
    nccl: NcclView | None = None


class ReportError(ValueError):
    """A file is not a report of this schema."""


def encode(report: Report) -> bytes:
    """The report as indented JSON with a final newline; characters that could move a terminal are escaped."""
    text = msgspec.json.format(msgspec.json.encode(report), indent=1).decode()
    return json_safe(text).encode() + b"\n"


def decode(text: bytes, *, name: str = "report") -> Report:
    """Read a report. Raises ReportError saying what in `name` is wrong; unknown keys are ignored."""
    try:
        report = msgspec.json.decode(text, type=Report)
        _check(report)
        return report
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as problem:
        raise ReportError(f"{name}: not a report of {SCHEMA}: {problem}") from None


def _check(report: Report) -> None:
    """Refuse values that no report of ours holds: others may have written it."""
    for finding in (*report.findings, *report.consequences):
        ranks = finding.culprit.ranks if finding.culprit else ()
        if not 0 <= finding.confidence <= 1:
            raise msgspec.ValidationError(f"confidence {finding.confidence} is not within 0 to 1")
        if any(not 0 <= number < RANKS_LIMIT for number in ranks):
            raise msgspec.ValidationError(f"{max(ranks, key=abs)} is no rank")


def json_schema() -> dict[str, object]:
    """The JSON schema of a report (draft 2020-12), made from the dataclasses. Every field is always written."""
    schema = msgspec.json.schema(Report)
    for kind in schema["$defs"].values():
        kind["required"] = list(kind["properties"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def write_schema(path: Path) -> None:
    """Write the committed schema file anew."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(json_schema(), order="sorted"), indent=1) + b"\n")


if __name__ == "__main__":
    write_schema(Path(__file__).with_name("schema.json"))
