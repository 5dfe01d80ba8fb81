"""The main loop: take what the collectors saw, judge it, and hand the verdict to HTTP and the job folder."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Protocol, TypeAlias

from aidiag.collectors.collector import Clock
from aidiag.collectors.observation import Absent, Event, Observation, Sample
from aidiag.collectors.signal import Registry
from aidiag.diagnose.incident import LogFile, diagnose_logs
from aidiag.diagnose.job.ledger import Change, Ledger
from aidiag.diagnose.report.left_out import left_out, told
from aidiag.diagnose.report.model import JobFacts, RankRow, Report, Unknown
from aidiag.diagnose.report.questions import questions
from aidiag.diagnose.report.ranks import rank_rows
from aidiag.diagnose.sidecar.latest import Latest
from aidiag.diagnose.sidecar.snapshot import Snapshot
from aidiag.rules.causes import Links, arrange, links_of
from aidiag.rules.engine import Tracker, judge
from aidiag.rules.finding import Finding
from aidiag.rules.model import Rule
from aidiag.rules.waivers import Waiver, waived
from aidiag.rules.window import Window

TICK_SECONDS = 1.0
ALIVE_SECONDS = 30.0
EVENTS_KEPT = 500
CLOCK_STEP_SECONDS = 0.1
"""A wall clock that has moved by so much has been set."""
LOOK_BACK_SECONDS = 60.0
"""Events from so long before the start still count: a job may have begun before its sidecar did."""

Arranged: TypeAlias = tuple[list[Finding], list[Finding], tuple[Unknown, ...]]

log = logging.getLogger(__name__)


class Source(Protocol):
    """Where observations come from: the runner of the collectors."""

    def poll(self) -> Sequence[Observation]:
        """What has been seen since the last call; returns at once."""

    def gaps(self) -> Sequence[Unknown]:
        """Which collectors cannot see, and why."""


class Output(Protocol):
    """Where verdicts go. An output that raises is logged and does not disturb the others."""

    def write(self, snapshot: Snapshot, changes: Sequence[Change], events: Iterable[Event]) -> None:
        """Take a tick's verdict."""


class Sidecar:
    """Collects, judges and publishes until it is told to stop.

    `rules` are judged over a window of the observations of `source`. `job` says what is watched. One tick is one pure
    pass from observations to a Snapshot (`tick`), and `run` makes one each TICK_SECONDS.
    """

    def __init__(
        self,
        *,
        host: str,
        clock: Clock,
        registry: Registry,
        rules: Sequence[Rule],
        source: Source,
        tracker: Tracker,
        outputs: Sequence[Output] = (),
        job: Callable[[], JobFacts] = JobFacts,
        waivers: Sequence[Waiver] = (),
    ) -> None:
        self._waivers = tuple(waivers)
        self._host, self._clock, self._registry, self._source = host, clock, registry, source
        self._rules, self._tracker, self._outputs, self._job = tuple(rules), tracker, tuple(outputs), job
        self._severities = {rule.id: rule.severity for rule in rules}
        self._links = links_of(rules)
        self._window = Window(registry, unix_offset=clock.unix() - clock.monotonic())
        self._latest = Latest(registry, host)
        self._ledger = Ledger()
        self._events: deque[Event] = deque(maxlen=EVENTS_KEPT)
        self._snapshot: Snapshot | None = None
        self._last: tuple[list[Finding], Arranged] | None = None
        self._stop = threading.Event()
        self._turned = clock.monotonic()
        self._since = self._turned - LOOK_BACK_SECONDS

    def judge_logs(self, logs: Sequence[LogFile], job: str) -> Report:
        """The report on logs of the job, read after its end by the rules in force."""
        return diagnose_logs(logs, rules=self._rules, registry=self._registry, language=self.language, job=job)

    @property
    def snapshot(self) -> Snapshot | None:
        """The verdict of the last tick; may be read from any thread."""
        return self._snapshot

    @property
    def events(self) -> tuple[Event, ...]:
        """The newest events of this host."""
        return tuple(self._events)

    @property
    def links(self) -> Mapping[str, Links]:
        """What the rules in force declare about each other."""
        return self._links

    @property
    def language(self) -> str:
        """The language of the texts."""
        return self._tracker.language

    def alive(self) -> bool:
        """Whether the loop turns."""
        return self._clock.monotonic() - self._turned < ALIVE_SECONDS

    def stop(self) -> None:
        """Make `run` return after the tick under way."""
        self._stop.set()

    def run(self, done: Callable[[], bool] = lambda: False) -> None:
        """Tick until `stop` is called or `done` says so."""
        while not self._stop.is_set() and not done():
            self.tick()
            self._stop.wait(TICK_SECONDS)
        self.tick()

    def tick(self, *, final: bool = False) -> Snapshot:
        """Take in what was observed, judge, publish. An output that fails never ends the loop.

        `final` is the last tick of a job: what an event has shown needs to hold no longer.
        """
        now, unix = self._clock.monotonic(), self._clock.unix()
        self._turned = now
        self._follow_wall_clock(unix - now)
        for observation in self._source.poll():
            self._take(observation)
        self._latest.expire(now)
        judgements = judge(self._rules, self._window, now)
        findings = self._tracker.update(judgements, now, final=final)
        if self._waivers:
            today = datetime.fromtimestamp(unix, timezone.utc).date()
            findings = [waived(finding, self._waivers, today) for finding in findings]
        changes = self._ledger.update(findings, now)
        roots, consequences, asked = self._arranged(findings)
        unjudged = left_out(self._window)
        snapshot = Snapshot(
            host=self._host,
            monotonic=now,
            unix=unix,
            samples=self._latest.samples(),
            findings=tuple(roots),
            consequences=tuple(consequences),
            raised=self._ledger.raised,
            severities=self._severities,
            undecided=frozenset(j.rule.id for j in judgements if j.state == "undecided"),
            unknown=(*self._source.gaps(), *told(unjudged), *asked),
            ranks=self.ranks(),
            job=self._job(),
            left_out=sum(unjudged.values()),
            ready=True,
        )
        self._snapshot = snapshot
        for output in self._outputs:
            try:
                output.write(snapshot, changes, self._events)
            except Exception:
                log.exception("an output failed")
        return snapshot

    def _arranged(self, findings: list[Finding]) -> Arranged:
        """Roots, consequences and open questions; nothing is worked out while the findings stay as they are."""
        if self._last is None or self._last[0] != findings:
            roots, consequences = arrange(findings, self._links)
            self._last = (findings, (roots, consequences, questions(roots, self._links, self.language)))
        return self._last[1]

    def _follow_wall_clock(self, unix_offset: float) -> None:
        """Let a step of the wall clock move all Unix times: those of other hosts and of logs are in the new one."""
        if abs(unix_offset - (self._window.unix_offset or 0.0)) > CLOCK_STEP_SECONDS:
            self._window.unix_offset = self._tracker.unix_offset = unix_offset

    def every_finding(self) -> list[Finding]:
        """All findings of the job so far, cleared ones too, not yet arranged."""
        return [replace(finding, explains=(), explained_by=None) for finding in self._ledger.every()]

    def arrange(self, findings: Iterable[Finding]) -> tuple[list[Finding], list[Finding]]:
        """Roots and consequences by what the rules in force declare."""
        return arrange(findings, self._links)

    def ranks(self) -> tuple[RankRow, ...]:
        """How far each rank in view has got."""
        return rank_rows(self._latest.ranks())

    def _take(self, observation: Observation) -> None:
        if isinstance(observation, Event) and observation.time is not None and observation.time < self._since:
            return  # the kernel's log, for one, still holds what happened before this job
        self._window.add(observation)
        match observation:
            case Sample():
                self._latest.add(observation)
            case Event() if observation.subject is not None and observation.subject.host == self._host:
                self._events.append(observation)
            case Absent() | Event():
                pass
