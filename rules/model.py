"""A rule: what it looks for, when it speaks, and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from aidiag.collectors.subject import SubjectKind
from aidiag.rules.expression.tree import Expression
from aidiag.rules.expression.units import PLAIN, Dimension
from aidiag.rules.finding import Severity
from aidiag.rules.loading.errors import RuleError
from aidiag.rules.texts import Text

Blamed = Literal["job", "host", "rank", "gpu", "port", "nic", "link", "none"]


@dataclass(frozen=True, slots=True)
class Threshold:
    """A named constant that operators may set. `because` says where the number comes from."""

    value: float | str
    dimension: Dimension = PLAIN
    text: str = ""
    because: str = ""


@dataclass(frozen=True, slots=True)
class RemedyStep:
    """A step of the remedy; where it has a condition, it is given only while that holds."""

    do: Text
    command: str = ""
    confirm: Text = field(default_factory=dict)
    when: Expression | None = None


@dataclass(frozen=True, slots=True)
class Explained:
    """A cause label, or the id of a rule (`is_rule`), that a finding accounts for, at the same rank, host or job.

    `anytime` where the other may have been seen earlier, as the sign that foretold this one.
    """

    label: str
    is_rule: bool = False
    at: Literal["rank", "host", "job"] = "job"
    anytime: bool = False


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Another cause that cannot be true at the same time, and what would decide between the two."""

    label: str
    is_rule: bool
    decide: Text


@dataclass(frozen=True, slots=True)
class Rule:
    """One symptom. The fields are those of a rule file (docs/add-a-rule.md); times are in seconds."""

    id: str
    cause: str
    title: Text
    severity: Severity
    scope: SubjectKind
    summary: Text
    why: Text
    remedy: tuple[RemedyStep, ...]
    confidence: float = 0.8
    check: str | None = None
    each: str | None = None
    merge: Literal["job", "host", "moment"] | None = None
    lead: str | None = None
    unseen: bool = False
    thresholds: dict[str, Threshold] = field(default_factory=dict)
    lets: dict[str, Expression] = field(default_factory=dict)
    events: tuple[str, ...] = ()
    when: Expression | None = None
    until: Expression | None = None
    critical: Expression | None = None
    settle_seconds: float = 5.0
    for_seconds: float = 0.0
    for_threshold: str = ""
    keep_for_seconds: float = 0.0
    culprit: Blamed = "none"
    culprit_ranks: str | None = None
    explains: tuple[Explained, ...] = ()
    excludes: tuple[Exclusion, ...] = ()
    evidence: tuple[Text, ...] = ()
    observed: Text = field(default_factory=dict)
    expected: Text = field(default_factory=dict)
    target: str = ""
    false_positives: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    path: str = ""

    def with_thresholds(self, thresholds: Mapping[str, Threshold]) -> Rule:
        """The same rule with other constants."""
        wait = thresholds.get(self.for_threshold)
        seconds = self.for_seconds if wait is None else float(wait.value)
        return replace(self, thresholds={**self.thresholds, **thresholds}, for_seconds=seconds)


@dataclass(frozen=True, slots=True)
class RuleBook:
    """The rules in force, and what was wrong with files that were left out."""

    rules: tuple[Rule, ...]
    errors: tuple[RuleError, ...] = ()

    def __getitem__(self, rule_id: str) -> Rule:
        for rule in self.rules:
            if rule.id == rule_id:
                return rule
        raise KeyError(rule_id)
