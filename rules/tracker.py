"""From judgements to findings: how long a condition must hold, which subjects are told together, and in which words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from aidiag.collectors.subject import Subject
from aidiag.rules.finding import Finding
from aidiag.rules.judgement import Judgement
from aidiag.rules.model import Rule
from aidiag.rules.telling import Occurrence, tell
from aidiag.rules.texts import ENGLISH, in_language, names_in
from aidiag.rules.tracks import Track, is_timeless, moments

REFRESH_SECONDS = 30.0
"""How often the figures in the texts of an active finding are renewed."""


@dataclass(slots=True)
class _Told:
    finding: Finding
    members: frozenset[object]
    critical: bool
    at: float
    known: int
    """How many of the values that its texts may use were known."""


@dataclass(slots=True)
class Tracker:
    """Follows judgements over time.

    `unix_offset` turns the time base into Unix seconds; None where that is not known, so that findings have no times.
    `language` is that of the texts. `job` is the job id of findings whose subject belongs to none that is known.
    """

    unix_offset: float | None = 0.0
    language: str = ENGLISH
    job: str = ""
    _tracks: dict[object, Track] = field(default_factory=dict)
    _told: dict[str, _Told] = field(default_factory=dict)

    def update(self, judgements: Iterable[Judgement], now: float, *, final: bool = False) -> list[Finding]:
        """Take the judgements of `now` and give the findings that are active.

        A condition that is undecided neither begins nor ends anything until `keep_for` has passed. With `final`, at the
        end of a job, what an event has shown needs to hold no longer.
        """
        for judgement in judgements:
            if judgement.state == "firing":
                self._fires(judgement, now)
            elif judgement.state == "quiet" and self._tracks:
                track = self._tracks.get(_key(judgement))
                if track is not None and track.active_since is None:
                    del self._tracks[_key(judgement)]
        for key, track in list(self._tracks.items()):
            rule = track.judgement.rule
            if track.last_true < now and now - track.last_true >= _patience(rule, track.active_since is not None):
                del self._tracks[key]
            elif track.active_since is None and track.last_true == now:
                ripe = now - track.pending_since >= rule.for_seconds
                if ripe or (final and rule.events):
                    track.active_since = now
        return self._findings(now)

    def _fires(self, judgement: Judgement, now: float) -> None:
        track = self._tracks.get(_key(judgement))
        if track is None:
            since = now if judgement.since is None else min(now, judgement.since)
            self._tracks[_key(judgement)] = Track(judgement, since, now)
        else:
            track.judgement, track.last_true = judgement, now

    def _findings(self, now: float) -> list[Finding]:
        groups: dict[str, list[Track]] = {}
        apart: dict[object, list[Track]] = {}
        for track in self._tracks.values():
            if track.active_since is not None and track.judgement.rule.merge == "moment":
                apart.setdefault((track.judgement.rule.id, track.judgement.job, self._words(track)), []).append(track)
            elif track.active_since is not None:
                groups.setdefault(self._finding_id(track.judgement), []).append(track)
        for moment in (moment for tracks in apart.values() for moment in moments(tracks)):
            groups.setdefault(self._finding_id(moment[0].judgement), []).extend(moment)
        for gone in self._told.keys() - groups.keys():
            del self._told[gone]
        return [self._finding(finding_id, tracks, now) for finding_id, tracks in groups.items()]

    def _finding(self, finding_id: str, tracks: list[Track], now: float) -> Finding:
        members = frozenset(_key(track.judgement) for track in tracks)
        critical = any(track.judgement.critical for track in tracks)
        told = self._told.get(finding_id)
        same = told is not None and (told.members, told.critical) == (members, critical)
        if told is not None and same and now - told.at < REFRESH_SECONDS:
            return told.finding
        known = sum(value is not None for track in tracks for value in track.judgement.values.values())
        if told is not None and same and known < told.known:
            return told.finding  # at the end of a job much is no longer known: what it was still counts
        occurrences = [self._occurrence(track) for track in tracks]
        told = self._told[finding_id] = _Told(
            tell(finding_id, occurrences, self.language, self.job), members, critical, now, known
        )
        return told.finding

    def _words(self, track: Track) -> object:
        """What the summary says of a subject beside its name: only of whom the same is true it speaks together."""
        judgement = track.judgement
        shown = names_in(in_language(judgement.rule.summary, self.language))
        return (judgement.subject is None, *(judgement.values.get(name) for name in shown))

    def _occurrence(self, track: Track) -> Occurrence:
        if self.unix_offset is None or is_timeless(track) or track.active_since is None:
            return Occurrence(track.judgement, None, None)
        return Occurrence(
            track.judgement, track.pending_since + self.unix_offset, track.active_since + self.unix_offset
        )

    def _finding_id(self, judgement: Judgement) -> str:
        """The same for the same fault in every report of a job: rule, job and whom it concerns."""
        rule, subject = judgement.rule, judgement.subject
        job = judgement.job or self.job
        if rule.merge == "job":
            parts = [rule.id, job]
        elif rule.merge == "host":
            parts = [rule.id, job, subject.host if subject else ""]
        else:
            parts = [rule.id, job, *_who(subject), *([judgement.binding] if judgement.binding else [])]
        return "/".join(part.replace("/", "_") for part in parts)


def _who(subject: Subject | None) -> list[str]:
    if subject is None:
        return ["unknown"]
    own = f"{subject.kind}-{subject.name}"
    return [subject.host, own] if subject.kind in ("gpu", "port", "nic") and subject.host else [own]


def _key(judgement: Judgement) -> tuple[object, ...]:
    return (judgement.rule.id, judgement.subject, judgement.binding)


def _patience(rule: Rule, active: bool) -> float:
    """How long a rule may be undecided, or quiet while it is active, before it is forgotten."""
    return rule.keep_for_seconds if active else max(rule.keep_for_seconds, rule.for_seconds)
