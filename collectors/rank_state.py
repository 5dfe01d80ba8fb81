"""The states of a rank and their codes (`rank_state_code`)."""

from __future__ import annotations

from enum import IntEnum


class RankState(IntEnum):
    """Where a rank is in its life. The codes stand in rules and dashboards: they never change."""

    UNKNOWN = 0
    STARTING = 1
    RENDEZVOUS = 2
    GROUP_INIT = 3
    TRAINING = 4
    CHECKPOINT = 5
    EVALUATION = 6
    FINISHED = 7
    FAILED = 8

    @property
    def words(self) -> str:
        """The state for people."""
        return self.name.lower().replace("_", " ")

    @classmethod
    def of(cls, code: float | None) -> RankState:
        """The state of a code; of one that nobody gives, and of none, it is unknown."""
        return next((state for state in cls if state == code), cls.UNKNOWN)


CODES_HELP = ", ".join(f"{state.value} {state.words}" for state in RankState)
"""All codes with their words."""
