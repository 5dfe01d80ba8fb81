"""Subjects for which rules hold, and which of them began at the same moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from aidiag.rules.explanations import SAME_RULE_SECONDS
from aidiag.rules.judgement import Judgement


@dataclass(slots=True)
class Track:
    """One subject for which a rule holds, or has held until shortly."""

    judgement: Judgement
    pending_since: float
    last_true: float
    active_since: float | None = None


def moments(tracks: Iterable[Track]) -> Iterator[list[Track]]:
    """Those that began at the same moment together, in the order of time; one of unknown time is alone."""
    moment: list[Track] = []
    for track in sorted(tracks, key=_beginning):
        if is_timeless(track):
            yield [track]
        elif moment and track.pending_since <= moment[0].pending_since + SAME_RULE_SECONDS:
            moment.append(track)
        else:
            if moment:
                yield moment
            moment = [track]
    if moment:
        yield moment


def _beginning(track: Track) -> tuple[float, int, int, str]:
    judgement = track.judgement
    number = judgement.subject.rank if judgement.subject else None
    order = judgement.events[0].order if judgement.events else 0
    return (track.pending_since, order, -1 if number is None else number, str(judgement.subject))


def is_timeless(track: Track) -> bool:
    """Whether events show it of which nobody knows when they were."""
    return bool(track.judgement.events) and track.judgement.since is None
