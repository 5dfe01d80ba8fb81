"""What a rule has found about events, so that old ones are not looked into again at each tick."""

from __future__ import annotations

from typing import NamedTuple

from aidiag.collectors.observation import Event
from aidiag.rules.judgement import Judgement
from aidiag.rules.undecided import Gap

SETTLED_SECONDS = 10.0
"""What is known about the time of an event this long after its traces were collected seldom changes any more."""
AGAIN_SECONDS = 10.0
"""How often what is undecided, and the words of what fires, are looked into again: a collector may be late."""


class Answer(NamedTuple):
    """Whether an event fulfils the condition, None with what is missing; found when; and what it makes the rule say."""

    event: Event
    truth: bool | None
    gaps: tuple[Gap, ...]
    at: float
    firing: Judgement | None = None


class Answers:
    """The answers about settled events, from one round of judging to the next: those not kept again are forgotten."""

    def __init__(self) -> None:
        self._kept: dict[int, Answer] = {}
        self._earlier: dict[int, Answer] = {}

    def begin(self) -> None:
        """Begin a round."""
        self._earlier, self._kept = self._kept, {}

    def keep(self, answer: Answer) -> None:
        """Keep an answer for this round and the next."""
        self._kept[id(answer.event)] = answer

    def of(self, event: Event, now: float) -> Answer | None:
        """What the round before, or this one, found about an event, where that need not be looked into again."""
        kept = self._kept.get(id(event)) or self._earlier.get(id(event))
        if kept is None or kept.event is not event:
            return None
        return kept if kept.truth is not None or 0 <= now - kept.at < AGAIN_SECONDS else None
