"""How old what a peer shared is, where its clock and this host's do not agree.

A peer stamps its state by its own clock. As long as the stamps fit what is seen here, they are believed: they alone
tell how old a state was when it was first seen. Where they do not fit (from the future, or long ago although the file
has only just changed), the state is taken to be as old as its change is by this host's clock.
"""

from __future__ import annotations

from dataclasses import dataclass

SKEW_SECONDS = 5.0
"""Clocks that are no further apart than this agree: hosts with NTP are within milliseconds, and a shared file system
may show a file some seconds late."""


@dataclass(slots=True)
class PeerClock:
    """The clock of one peer. `behind` is by how many seconds it is behind this host's, 0 where they agree."""

    behind: float = 0.0
    _stamp: float | None = None
    _looked: float = 0.0
    _changed: float = 0.0
    _age: float = 0.0

    def seen(self, stamp: float, now: float, unix: float) -> None:
        """The peer's state says that it is of `stamp` (Unix seconds there); here it is `now` (monotonic) and `unix`."""
        if stamp != self._stamp:
            age = unix - stamp
            # The first state may be old in truth; later ones were written since the last look.
            oldest = float("inf") if self._stamp is None else now - self._looked + SKEW_SECONDS
            if -SKEW_SECONDS <= age <= oldest:
                self.behind = 0.0
            elif abs(age - self.behind) > oldest or age < self.behind:
                self.behind = age  # the smallest difference seen is that of the state that came soonest
            self._changed, self._age = now, max(0.0, age - self.behind)
        self._stamp, self._looked = stamp, now

    def age(self, now: float) -> float:
        """Seconds since the peer wrote its last state; after the first look steps of the wall clock do not matter."""
        return self._age + now - self._changed
