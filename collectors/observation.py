"""What collectors hand on: samples, reasons for their absence, and events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from aidiag.collectors.subject import Subject

Labels: TypeAlias = tuple[tuple[str, str], ...]
FieldValue: TypeAlias = str | int | float | bool


def labels(**values: str) -> Labels:
    """Labels in their canonical order."""
    return tuple(sorted(values.items()))


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading of a signal. `time` is in seconds of the collecting clock (monotonic when live)."""

    signal: str
    subject: Subject
    value: float | str
    time: float
    labels: Labels = ()


@dataclass(frozen=True, slots=True)
class Absent:
    """A signal that should be here and could not be read, or a kind of event that cannot be seen: why, and what would
    make it visible.

    That of an event kind has the label `collector`, so that a success of the same collector ends it. `expected` is False where the thing itself is not there (no GPU in this host), so that nothing is amiss. `time` is
    in seconds of the collecting clock; None stands for the moment in which it is told.
    """

    signal: str
    subject: Subject
    reason: str
    remedy: str = ""
    labels: Labels = ()
    expected: bool = True
    time: float | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a piece of evidence stands: `line` (from 1) of `source`, and its text."""

    source: str
    line: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a subject.

    `time` is in seconds of the collecting clock, `unix` the time of day that the source itself states; each is None
    where it is not known. `order` orders events of one source (a byte offset, a sequence number).
    """

    kind: str
    subject: Subject | None
    time: float | None
    fields: Mapping[str, FieldValue] = field(default_factory=dict)
    unix: float | None = None
    place: Place | None = None
    order: int = 0


Observation: TypeAlias = Sample | Absent | Event
