"""What shows only when the messages of an incident are laid side by side.

A rank's word alone says that it waits. Which rank the others wait for, whether they wait in different calls, and how much of
a step is input shows when the words of all ranks, and of all steps, are compared. What is found becomes events as well.
"""

from __future__ import annotations

from collections.abc import Iterator

from aidiag.collectors.logs.comparing.busy import BusyRanks, LinesBetween
from aidiag.collectors.logs.comparing.collectives import Collectives
from aidiag.collectors.logs.comparing.cpus import Cpus
from aidiag.collectors.logs.comparing.found import COMPARED
from aidiag.collectors.logs.comparing.inputs import Inputs
from aidiag.collectors.logs.comparing.steps import Steps
from aidiag.collectors.observation import Event

__all__ = ["COMPARED", "Comparison"]


class Comparison:
    """Takes the events of an incident one by one, in bounded memory, and tells at the end what they show together."""

    def __init__(self) -> None:
        self._busy = BusyRanks()
        self._parts = (Collectives(), Inputs(), Steps(), Cpus())

    def add(self, event: Event) -> None:
        """Take note of an event."""
        self._busy.add(event)
        for part in self._parts:
            part.add(event)

    def finish(self, between: LinesBetween = lambda source, first, last: ()) -> Iterator[Event]:
        """What the events show together. `between` reads some lines of a log again."""
        yield from self._busy.finish(between)
        for part in self._parts:
            yield from part.finish()
