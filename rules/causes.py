"""Root cause before symptom: which finding explains which, by what rules declare, by time and by place.

`explains:` of a rule names cause labels or rules. A finding can explain another one of such a cause when it did not begin
later and, where the rule asks for it, concerns the same rank or host. What nothing explains is a root.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from aidiag.rules.circles import circles
from aidiag.rules.explanations import Bearing, Explanations, Links, Place, bearing, job_of, links_of, places_of
from aidiag.rules.finding import SEVERITIES, Finding
from aidiag.rules.texts import ENGLISH, in_language, render

__all__ = ["Bearing", "Links", "OpenQuestion", "arrange", "bearing", "job_of", "links_of", "open_questions"]


class OpenQuestion(NamedTuple):
    """Two roots of which only one can be true, and what would decide."""

    findings: tuple[str, str]
    what: str
    decide: str


def arrange(findings: Iterable[Finding], links: Mapping[str, Links]) -> tuple[list[Finding], list[Finding]]:
    """The roots, most probable first, and the consequences, with `explains` and `explained_by` filled in.

    `links` are what the rules in force declare (`links_of`). A consequence names the root that explains it, directly or
    through others; a root lists its consequences. Where findings explain each other in a circle, the strongest one is
    the root: the earliest, then the most severe, then the most confident.
    """
    found = list({finding.id: finding for finding in findings}.values())
    graph = Explanations(found, links)
    rings = circles(graph.edges, range(len(found)))
    worst, heads = _heads(found, graph.edges, rings)
    order = sorted(heads, key=lambda head: (worst[head], *_strength(found[head])))
    by_root: dict[int, list[int]] = {head: [] for head in order}
    for number, head in _explaining(found, graph, rings, order):
        by_root[head].append(number)
    for head in order:
        by_root[head].sort(key=lambda n: (found[n].since or 0.0, found[n].id))
    roots = [
        replace(found[head], explains=tuple(found[n].id for n in by_root[head]), explained_by=None) for head in order
    ]
    consequences = [
        replace(found[n], explains=(), explained_by=found[head].id) for head in order for n in by_root[head]
    ]
    return roots, consequences


def open_questions(roots: Sequence[Finding], links: Mapping[str, Links], language: str = ENGLISH) -> list[OpenQuestion]:
    """Where two roots exclude each other: which, and what would decide between them."""
    known: dict[tuple[bool, str], list[Finding]] = defaultdict(list)
    for root in roots:
        known[True, root.rule].append(root)
        known[False, root.cause].append(root)
    asked: dict[frozenset[str], OpenQuestion] = {}
    for one in roots:
        for exclusion in links.get(one.rule, Links()).excludes:
            for other in known[exclusion.is_rule, exclusion.label]:
                pair = frozenset((one.id, other.id))
                if other is one or pair in asked or not _places(one) & _places(other):
                    continue
                decide = render(in_language(exclusion.decide, language), _named(one), language)
                asked[pair] = OpenQuestion((one.id, other.id), f"{one.title} / {other.title}", decide)
    return list(asked.values())


def _heads(
    found: Sequence[Finding], edges: Sequence[Sequence[int]], rings: Sequence[Sequence[int]]
) -> tuple[dict[int, int], list[int]]:
    """The roots: of each circle that nothing outside explains the strongest finding; and how grave each node is with all
    that it leads to (least is gravest).
    """
    ring_of = {node: number for number, ring in enumerate(rings) for node in ring}
    entered = {ring_of[target] for node in ring_of for target in edges[node] if ring_of[target] != ring_of[node]}
    worst: dict[int, int] = {}
    heads = []
    for number, ring in enumerate(rings):  # what a circle leads to comes before it
        below = (worst[target] for node in ring for target in edges[node] if target in worst)
        own = (_rank(found[node]) for node in ring if node < len(found))
        worst.update(dict.fromkeys(ring, min((*own, *below), default=0)))
        if number not in entered:
            heads.append(min((node for node in ring if node < len(found)), key=lambda node: _first_cause(found[node])))
    return worst, heads


def _explaining(
    found: Sequence[Finding], graph: Explanations, rings: Sequence[Sequence[int]], order: Sequence[int]
) -> list[tuple[int, int]]:
    """Each consequence with its root: one that explains it directly if there is one, at the same place if there is one,
    and of these the first in `order`. Sets of roots are bit masks, the first one the lowest bit.
    """
    bits = {head: 1 << position for position, head in enumerate(order)}
    at_place: dict[Place | None, int] = defaultdict(int)
    for head, bit in bits.items():
        for place in _places(found[head]):
            at_place[place] |= bit
    reach, direct = _reach(graph.edges, rings, bits), _direct(graph, bits)
    chosen = []
    for number, finding in enumerate(found):
        if number in bits:
            continue
        near = 0
        for place in _places(finding):
            near |= at_place[place]
        near_by = (direct[number] & near, direct[number], reach[number] & near, reach[number])
        best = next(mask for mask in near_by if mask)
        chosen.append((number, order[(best & -best).bit_length() - 1]))
    return chosen


def _reach(edges: Sequence[Sequence[int]], rings: Sequence[Sequence[int]], bits: Mapping[int, int]) -> dict[int, int]:
    """The roots that explain each node, directly or through others."""
    reach: dict[int, int] = defaultdict(int)
    for ring in reversed(rings):
        mask = 0
        for node in ring:
            mask |= reach[node] | bits.get(node, 0)
        for node in ring:
            reach[node] = mask
            for target in edges[node]:
                reach[target] |= mask
    return reach


def _direct(graph: Explanations, bits: Mapping[int, int]) -> dict[int, int]:
    """The roots that explain each finding directly."""
    entering: dict[int, int] = defaultdict(int)
    for head, bit in bits.items():
        for stop in graph.edges[head]:
            entering[stop] |= bit
    direct: dict[int, int] = defaultdict(int)
    for first, members in graph.queues:
        mask = 0
        for stop, number in enumerate(members, first):
            mask |= entering[stop]
            direct[number] |= mask
    return direct


def _places(finding: Finding) -> set[Place | None]:
    """The ranks and hosts that a finding concerns; None stands for nobody, where it is not known whom."""
    return {None} if finding.culprit is None else set(places_of(finding))


def _rank(finding: Finding) -> int:
    return -SEVERITIES.index(finding.severity)


def _first_cause(finding: Finding) -> tuple[float, int, float, str]:
    since = float("inf") if finding.since is None else finding.since
    return (since, _rank(finding), -finding.confidence, finding.id)


def _strength(finding: Finding) -> tuple[float, float, str]:
    since = float("inf") if finding.since is None else finding.since
    return (-finding.confidence, since, finding.id)


def _named(finding: Finding) -> dict[str, str | None]:
    culprit = finding.culprit
    hosts = ", ".join(culprit.hosts) if culprit else ""
    ranks = ", ".join(map(str, culprit.ranks)) if culprit else ""
    return {"host": hosts or None, "hosts": hosts or None, "rank": ranks or None, "ranks": ranks or None}
