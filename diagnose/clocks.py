"""Clocks of hosts that differ, told from logs in which lines of several hosts stand in the order in which they came.

Where a line of one host comes right before a line of another one, the second was written later. So the least difference of
their stated times, over all such places and in both directions, bounds how far one clock is ahead. Where several hosts
complete one communicator they do so together. Without both bounds nothing is known, and stated times are taken as they are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from aidiag.collectors.observation import Event
from aidiag.diagnose.report.model import Unknown
from aidiag.rules.finding import Finding
from aidiag.rules.texts import seconds

TOLD_SECONDS = 2.0
"""Less than this, clocks are taken to agree: lines of a log may be out of order by as much."""
TOGETHER_SECONDS = 5.0
"""How far apart the ranks of a communicator may say that it is complete."""
PLACES = 2
"""At how many places the order must show in each direction: one may be a line that was held back."""
HOSTS_KEPT = 1024


class Clocks:
    """What the events of an incident tell of the clocks of its hosts."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[str, float]] = {}
        self._gaps: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._complete: dict[str, dict[str, float]] = {}
        self._lines: Counter[str] = Counter()

    def see(self, event: Event) -> None:
        """Take note of an event that states its time and whose host is known."""
        host = str(event.fields.get("host") or (event.subject.host if event.subject else ""))
        if event.unix is None or event.place is None or not host:
            return
        if host not in self._lines and len(self._lines) >= HOSTS_KEPT:
            return
        self._lines[host] += 1
        before = self._last.get(event.place.source)
        if before and before[0] != host:
            self._note(before[0], host, event.unix - before[1])
        self._last[event.place.source] = (host, event.unix)
        if event.kind == "nccl_init_completed" and event.fields.get("comm_id") and len(self._complete) < HOSTS_KEPT:
            self._together(self._complete.setdefault(str(event.fields["comm_id"]), {}), host, event.unix)

    def ahead(self) -> dict[str, float]:
        """Seconds by which clocks are ahead of that of the host with the most lines, where that is known and matters."""
        if not self._lines:
            return {}
        reference = self.reference
        found = {}
        for host in self._lines:
            most, least = self._least(reference, host), self._least(host, reference)
            if host == reference or most is None or least is None or -least > most:
                continue
            if -least > TOLD_SECONDS or most < -TOLD_SECONDS:
                found[host] = (most - least) / 2
        return found

    @property
    def reference(self) -> str:
        """The host by whose clock the times of a report are."""
        return min(self._lines, key=lambda host: (-self._lines[host], host), default="")

    def _note(self, first: str, second: str, gap: float) -> None:
        """Keep the least gaps from a line of one host to a line of another one right after it."""
        gaps = self._gaps[first, second]
        gaps.append(gap)
        gaps.sort()
        del gaps[PLACES:]

    def _together(self, complete: dict[str, float], host: str, unix: float) -> None:
        for other, at in complete.items():
            if other != host:
                for first, second, gap in ((other, host, unix - at), (host, other, at - unix)):
                    for _ in range(PLACES):
                        self._note(first, second, gap + TOGETHER_SECONDS)
        if host in complete or len(complete) < HOSTS_KEPT:
            complete.setdefault(host, unix)

    def _least(self, first: str, second: str) -> float | None:
        gaps = self._gaps.get((first, second), [])
        return gaps[-1] if len(gaps) == PLACES else None


def corrected(findings: Iterable[Finding], ahead: Mapping[str, float]) -> list[Finding]:
    """The findings, those that concern one host alone with their times by the clock of the others."""
    return [_corrected(finding, ahead) for finding in findings]


def differing(clocks: Clocks) -> list[Unknown]:
    """What a report says of clocks that differ."""
    return [
        Unknown(
            f"the clock of {host}",
            f"is {seconds(abs(gap))} {'ahead of' if gap > 0 else 'behind'} that of {clocks.reference}, by the order of "
            "the lines; its findings are ordered by corrected times",
            "chronyc tracking",
        )
        for host, gap in sorted(clocks.ahead().items())
    ]


def _corrected(finding: Finding, ahead: Mapping[str, float]) -> Finding:
    hosts = finding.culprit.hosts if finding.culprit else ()
    gap = ahead.get(hosts[0], 0.0) if len(hosts) == 1 else 0.0
    if not gap or finding.since is None or finding.found_at is None:
        return finding
    return replace(finding, since=finding.since - gap, found_at=finding.found_at - gap)
