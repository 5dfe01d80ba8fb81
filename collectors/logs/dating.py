"""When the messages of a followed log happened.

The time that a line states counts where it can be true. A line without one was written between two looks at the file:
after what was read before it, and not after the file was last changed. That keeps the order of failures across files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from aidiag.collectors.observation import Event

BELIEVED_SECONDS = 600.0
"""How far the time of a line may lie before the look that did not show it yet (its writer buffers), or ahead of now. What
is further off was written in another time zone, or by another clock."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a file, in monotonic seconds; Unix time is ahead of them by `unix_offset`.

    What it shows was written after `since` (-inf: nobody knows) and before `now`; the file was last changed at `changed`.
    """

    now: float
    since: float
    changed: float
    unix_offset: float


def date(events: Sequence[Event], look: Look, oldest: float) -> Iterator[Event]:
    """The events of a look in their order, each with its time.

    Left out are those of which nothing tells that they happened after `oldest`: an old log that has begun to be
    followed says nothing of the present. A time that cannot be true is taken from the event.
    """
    stated = [_stated(event, look) for event in events]
    changed = min(look.now, max(look.changed, look.since))
    ceilings = []
    ceiling = changed
    for time in reversed(stated):
        ceiling = ceiling if time is None else min(changed, time)
        ceilings.append(ceiling)
    floor = look.since
    for event, time, ceiling in zip(events, stated, reversed(ceilings), strict=True):
        if time is not None:
            floor = time
            yield replace(event, time=time)
        elif floor >= oldest:
            yield replace(event, time=max(floor, ceiling), unix=None)


def _stated(event: Event, look: Look) -> float | None:
    """The time that the line of an event states, None where it states none that can be true."""
    if event.unix is None:
        return None
    time = event.unix - look.unix_offset
    if not look.since - BELIEVED_SECONDS <= time <= look.now + BELIEVED_SECONDS:
        return None
    return min(look.now, time)
