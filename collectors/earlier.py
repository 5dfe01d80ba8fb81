"""The counters of an earlier reading, as samples of that time: what makes a lifetime count a difference."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from aidiag.collectors.collector import Clock, Collector, Context
from aidiag.collectors.node import Node
from aidiag.collectors.observation import Sample
from aidiag.collectors.outcome import collect_once

BOOT_ID = "/proc/sys/kernel/random/boot_id"


class EarlierClock:
    """A clock that stood where another one stands now, so many seconds ago."""

    def __init__(self, clock: Clock, age_seconds: float) -> None:
        self._clock, self._age = clock, age_seconds

    def monotonic(self) -> float:
        """Seconds of the other clock, less the age."""
        return self._clock.monotonic() - self._age

    def unix(self) -> float:
        """Seconds since 1970, less the age."""
        return self._clock.unix() - self._age


def earlier_counters(kinds: Iterable[type[Collector]], context: Context) -> list[Sample]:
    """The counters that these collectors find in the node's earlier reading, with the time of that reading.

    Empty where there is none, or where the host has been started anew since: its counters began again then.
    """
    earlier = context.node.before()
    if earlier is None or _boot(earlier.node) != _boot(context.node):
        return []
    past = replace(context, node=earlier.node, clock=EarlierClock(context.clock, earlier.age_seconds))
    found = []
    for kind in kinds:
        counters = {signal.name for signal in kind.signals if signal.type == "counter"}
        outcome = collect_once(kind(past), past.clock)
        found += [one for one in outcome.observations if isinstance(one, Sample) and one.signal in counters]
    return found


def _boot(node: Node) -> str:
    """The boot of a node, empty where it is not known."""
    try:
        return node.text(BOOT_ID)
    except OSError:
        return ""
