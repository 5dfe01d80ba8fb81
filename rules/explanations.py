"""Which finding can explain which, as a graph that stays small however many findings there are.

Thousands of findings of one rule may each explain thousands of another: that many edges are never built. The findings of
one kind at one place stand in a queue, in the order of time. Who explains one of them explains all behind it, so that one
edge into the queue is enough: from a *stop* of the queue one gets to its finding and to the next stop.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from aidiag.rules.finding import Finding
from aidiag.rules.model import Exclusion, Explained, Rule

LATER_SECONDS = 10.0
"""How much later than its consequence a cause may be noticed: one round of the slowest collector (NVML, 10 s)."""
SAME_RULE_SECONDS = 1.0
"""Two findings of one rule explain each other only when they are at least this far apart."""

Place: TypeAlias = tuple[str, int | str]


class Links(NamedTuple):
    """What a rule declares about other findings. `unseen` where it blames ranks for not having been seen."""

    explains: tuple[Explained, ...] = ()
    excludes: tuple[Exclusion, ...] = ()
    unseen: bool = False


def links_of(rules: Iterable[Rule]) -> dict[str, Links]:
    """What rules declare, by their id."""
    return {rule.id: Links(rule.explains, rule.excludes, rule.unseen) for rule in rules}


class _Group(NamedTuple):
    """Findings that a rule's entry means all together; those without a time stand apart."""

    rule: str
    cause: str
    job: str
    timed: bool


class _Queue(NamedTuple):
    """`times` of the findings in it, and the number of its first stop; the others follow."""

    times: list[float]
    first_stop: int


class Explanations:
    """The graph. Node n below `len(findings)` is that finding, the others are stops; `edges` lead to what it explains."""

    def __init__(self, findings: Sequence[Finding], links: Mapping[str, Links]) -> None:
        self.edges: list[list[int]] = [[] for _ in findings]
        self.queues: list[tuple[int, list[int]]] = []
        """The first stop of each queue, and the findings in it."""
        self._findings = findings
        self._members: dict[_Group, list[int]] = defaultdict(list)
        self._placed: dict[_Group, dict[Place | None, list[int]]] = {}
        self._queues: dict[tuple[_Group, Place | None], _Queue | None] = {}
        for number, finding in enumerate(findings):
            self._members[_Group(finding.rule, finding.cause, job_of(finding), finding.since is not None)].append(
                number
            )
        by_label: dict[tuple[bool, str], list[_Group]] = defaultdict(list)
        for group in self._members:
            by_label[True, group.rule].append(group)
            by_label[False, group.cause].append(group)
        for number, finding in enumerate(findings):
            for entry in links.get(finding.rule, Links()).explains:
                for group in by_label[entry.is_rule, entry.label]:
                    self._link(number, entry, group)

    def _link(self, number: int, entry: Explained, group: _Group) -> None:
        one = self._findings[number]
        own_job, same_rule = job_of(one), group.rule == one.rule
        if (own_job and group.job and own_job != group.job) or (same_rule and (one.since is None or not group.timed)):
            return
        for place in _reached(one, entry.at):
            queue = self._queue(group, place)
            if queue is None:
                continue
            start = 0
            if same_rule and one.since is not None:
                start = bisect_right(queue.times, one.since + SAME_RULE_SECONDS)
            elif not entry.anytime and one.since is not None and group.timed:
                start = bisect_left(queue.times, one.since - LATER_SECONDS)
            if start < len(queue.times):
                self.edges[number].append(queue.first_stop + start)

    def _queue(self, group: _Group, place: Place | None) -> _Queue | None:
        """The queue of a group at a place (None: anywhere), None where nothing of it is there."""
        key = (group, place)
        if key not in self._queues:
            found = self._members[group] if place is None else self._at_places(group).get(place)
            self._queues[key] = self._new_queue(found) if found else None
        return self._queues[key]

    def _at_places(self, group: _Group) -> dict[Place | None, list[int]]:
        if group not in self._placed:
            placed = self._placed[group] = defaultdict(list)
            for number in self._members[group]:
                for place in places_of(self._findings[number]):
                    placed[place].append(number)
        return self._placed[group]

    def _new_queue(self, found: list[int]) -> _Queue:
        ordered = sorted(found, key=lambda number: (self._findings[number].since or 0.0, self._findings[number].id))
        first = len(self.edges)
        self.edges += [[number, first + position] for position, number in enumerate(ordered, 1)]
        self.edges[-1].pop()
        self.queues.append((first, ordered))
        return _Queue([self._findings[number].since or 0.0 for number in ordered], first)


def job_of(finding: Finding) -> str:
    """The job of a finding, from its id (rule/job/whom)."""
    parts = finding.id.split("/")
    return parts[1] if len(parts) > 1 and parts[0] == finding.rule else ""


def places_of(finding: Finding) -> Iterator[Place]:
    """The ranks and hosts that a finding concerns."""
    if finding.culprit is not None:
        yield from (("rank", number) for number in finding.culprit.ranks)
        yield from (("host", name) for name in finding.culprit.hosts)


Obstacle = Literal["unrelated", "later", "elsewhere"]


class Bearing(NamedTuple):
    """How one finding bears on another one: what its rule declares of it, and what stands in the way, if anything does.

    `unrelated`: no rule says that one leads to the other. `later`: it began too late for that. `elsewhere`: at another place.
    """

    entry: Explained | None
    obstacle: Obstacle | None
    place: Place | None = None


def bearing(one: Finding, other: Finding, links: Mapping[str, Links]) -> Bearing:
    """Whether `one` explains `other` directly, by the same rules as `Explanations`; if not, the best reason why."""
    best = Bearing(None, "unrelated")
    for entry in links.get(one.rule, Links()).explains:
        if entry.label != (other.rule if entry.is_rule else other.cause) or one.id == other.id:
            continue
        if job_of(one) and job_of(other) and job_of(one) != job_of(other):
            continue
        reached = list(_reached(one, entry.at))
        place = next((at for at in reached if at is None or at in places_of(other)), "none")
        if place == "none":
            best = Bearing(entry, "elsewhere") if best.entry is None else best
        elif not _in_time(one, other, entry):
            best = Bearing(entry, "later")
        else:
            return Bearing(entry, None, place if isinstance(place, tuple) else None)
    return best


def _in_time(one: Finding, other: Finding, entry: Explained) -> bool:
    if one.rule == other.rule:
        return one.since is not None and other.since is not None and other.since > one.since + SAME_RULE_SECONDS
    return entry.anytime or one.since is None or other.since is None or other.since >= one.since - LATER_SECONDS


def _reached(finding: Finding, at: str) -> Iterator[Place | None]:
    """The places at which a finding explains others: anywhere in the job (None), or those that it concerns itself."""
    if at == "job":
        yield None
    else:
        yield from (place for place in places_of(finding) if at == "host" or place[0] == "rank")
