"""Root cause before symptom: which finding explains which, by what rules declare, by time and by place.

`explains:` of a rule names cause labels or rules. A finding can explain another one of such a cause when it did not begin
later and, where the rule asks for it, concerns the same rank or host. What nothing explains is a root.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from aidiag.collectors import registry
from aidiag.rules.finding import SEVERITIES, Finding
from aidiag.rules.loader import load_builtin
from aidiag.rules.model import Exclusion, Explained, Rule
from aidiag.rules.texts import ENGLISH, in_language, render

LATER_SECONDS = 10.0
"""How much later than its consequence a cause may be noticed: one round of the slowest collector (NVML, 10 s)."""
SAME_RULE_SECONDS = 1.0
"""Two findings of one rule explain each other only when they are at least this far apart."""


class Links(NamedTuple):
    """What a rule declares about other findings."""

    explains: tuple[Explained, ...] = ()
    excludes: tuple[Exclusion, ...] = ()


class OpenQuestion(NamedTuple):
    """Two roots of which only one can be true, and what would decide."""

    findings: tuple[str, str]
    what: str
    decide: str


def links_of(rules: Iterable[Rule]) -> dict[str, Links]:
    """What rules declare, by their id."""
    return {rule.id: Links(rule.explains, rule.excludes) for rule in rules}


@lru_cache(maxsize=1)
def built_in_links() -> Mapping[str, Links]:
    """What the built-in rules declare."""
    return links_of(load_builtin(registry()).rules)


def arrange(
    findings: Iterable[Finding], links: Mapping[str, Links] | None = None
) -> tuple[list[Finding], list[Finding]]:
    """The roots, most probable first, and the consequences, with `explains` and `explained_by` filled in.

    `links` are what the rules in force declare (`links_of`); by default the built-in rules. A consequence names the root
    that explains it, directly or through others; a root lists its consequences. Where findings explain each other in a
    circle, the strongest one is the root: the earliest, then the most severe, then the most confident.
    """
    found = list({finding.id: finding for finding in findings}.values())
    declared = built_in_links() if links is None else links
    edges = [[_explains(one, other, declared) for other in found] for one in found]
    reach = _closure(edges)
    numbers = range(len(found))
    heads = {_head(found, reach, number) for number in numbers if _is_source(reach, number)}
    severity = {head: min(_rank(found[n]) for n in (head, *_below(reach, heads, head))) for head in heads}
    order = sorted(heads, key=lambda head: (severity[head], *_strength(found[head])))
    by_root: dict[int, list[int]] = {head: [] for head in order}
    for number in numbers:
        if number not in heads:
            reaching = [head for head in order if reach[head] >> number & 1]
            by_root[
                min(reaching, key=lambda h: (not edges[h][number], not _same_place(found[h], found[number])))
            ].append(number)
    for head in order:
        by_root[head].sort(key=lambda n: (found[n].since or 0.0, found[n].id))
    roots = [
        replace(found[head], explains=tuple(found[n].id for n in by_root[head]), explained_by=None) for head in order
    ]
    consequences = [
        replace(found[n], explains=(), explained_by=found[head].id) for head in order for n in by_root[head]
    ]
    return roots, consequences


def open_questions(
    roots: Sequence[Finding], links: Mapping[str, Links] | None = None, language: str = ENGLISH
) -> list[OpenQuestion]:
    """Where two roots exclude each other: which, and what would decide between them."""
    declared = built_in_links() if links is None else links
    asked: dict[frozenset[str], OpenQuestion] = {}
    for one in roots:
        for exclusion in declared.get(one.rule, Links()).excludes:
            for other in roots:
                rival = other.rule if exclusion.is_rule else other.cause
                pair = frozenset((one.id, other.id))
                if other is one or rival != exclusion.label or pair in asked or not _same_place(one, other):
                    continue
                decide = render(in_language(exclusion.decide, language), _places(one), language)
                asked[pair] = OpenQuestion((one.id, other.id), f"{one.title} / {other.title}", decide)
    return list(asked.values())


def _explains(one: Finding, other: Finding, links: Mapping[str, Links]) -> bool:
    """Whether one finding can be the cause of another."""
    if one is other or (job_of(one) and job_of(other) and job_of(one) != job_of(other)):
        return False
    if one.rule == other.rule and not (one.since and other.since and one.since + SAME_RULE_SECONDS < other.since):
        return False
    for entry in links.get(one.rule, Links()).explains:
        if entry.label != (other.rule if entry.is_rule else other.cause):
            continue
        in_time = entry.anytime or one.since is None or other.since is None
        if (in_time or one.since <= other.since + LATER_SECONDS) and _at(entry.at, one, other):  # type: ignore[operator]
            return True
    return False


def job_of(finding: Finding) -> str:
    """The job of a finding, from its id (rule/job/whom)."""
    parts = finding.id.split("/")
    return parts[1] if len(parts) > 1 and parts[0] == finding.rule else ""


def _at(place: str, one: Finding, other: Finding) -> bool:
    if place == "job":
        return True
    if one.culprit is None or other.culprit is None:
        return False
    if set(one.culprit.ranks) & set(other.culprit.ranks):
        return True
    return place == "host" and bool(set(one.culprit.hosts) & set(other.culprit.hosts))


def _same_place(one: Finding, other: Finding) -> bool:
    """Whether two findings concern a rank or a host in common, or nobody knows whom they concern."""
    if one.culprit is None or other.culprit is None:
        return one.culprit is other.culprit
    return _at("rank", one, other) or _at("host", one, other)


def _closure(edges: list[list[bool]]) -> list[int]:
    """For each finding the set of those it can explain, directly or through others, as a bit mask."""
    reach = [sum(1 << number for number, edge in enumerate(row) if edge) for row in edges]
    for middle in range(len(reach)):
        for number in range(len(reach)):
            if reach[number] >> middle & 1:
                reach[number] |= reach[middle]
    return reach


def _is_source(reach: list[int], number: int) -> bool:
    """Whether everything that explains a finding is explained by it in turn."""
    return all(reach[number] >> n & 1 for n in range(len(reach)) if reach[n] >> number & 1)


def _head(found: list[Finding], reach: list[int], number: int) -> int:
    """The strongest of the findings that explain each other in a circle with this one."""
    circle = [n for n in range(len(found)) if reach[n] >> number & 1 and reach[number] >> n & 1]
    return min([number, *circle], key=lambda n: _first_cause(found[n]))


def _below(reach: list[int], heads: set[int], head: int) -> list[int]:
    return [number for number in range(len(reach)) if reach[head] >> number & 1 and number not in heads]


def _rank(finding: Finding) -> int:
    return -SEVERITIES.index(finding.severity)


def _first_cause(finding: Finding) -> tuple[float, int, float, str]:
    since = float("inf") if finding.since is None else finding.since
    return (since, _rank(finding), -finding.confidence, finding.id)


def _strength(finding: Finding) -> tuple[float, float, str]:
    since = float("inf") if finding.since is None else finding.since
    return (-finding.confidence, since, finding.id)


def _places(finding: Finding) -> dict[str, str | None]:
    culprit = finding.culprit
    hosts = ", ".join(culprit.hosts) if culprit else ""
    ranks = ", ".join(map(str, culprit.ranks)) if culprit else ""
    return {"host": hosts or None, "hosts": hosts or None, "rank": ranks or None, "ranks": ranks or None}
