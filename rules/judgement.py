"""What a rule says about one subject at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

from aidiag.collectors.observation import Event, Labels
from aidiag.collectors.subject import Subject
from aidiag.rules.model import Rule
from aidiag.rules.undecided import Gap

State: TypeAlias = Literal["firing", "quiet", "undecided"]

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Reading(NamedTuple):
    """A reading that a condition looked at."""

    signal: str
    subject: Subject
    labels: Labels
    value: float | str


class Judgement(NamedTuple):
    """The state of a rule for a subject (None where nobody knows which) and, with `each`, one value of its label.

    Only where it fires the rest is filled: `values` are those of lets, thresholds, event fields and the label, None
    for what is undecided; `signals` holds for each let in `when` or `evidence` a reading that it comes
    from; `readings` are the gauges and texts that `when` looks at itself; `events` those that fulfil the condition, `support` what else was told that its expressions ask for, `since` the time of the first of them, None where it is not known;
    `steps` are the steps of the remedy that apply. Where it is undecided, `gaps` say what is missing.
    """

    rule: Rule
    subject: Subject | None
    state: State
    binding: str | None = None
    gaps: tuple[Gap, ...] = ()
    job: str = ""
    critical: bool = False
    values: Mapping[str, Any] = NOTHING
    signals: Mapping[str, Reading] = NOTHING
    readings: tuple[Reading, ...] = ()
    events: tuple[Event, ...] = ()
    support: tuple[Event, ...] = ()
    since: float | None = None
    steps: tuple[int, ...] = ()
