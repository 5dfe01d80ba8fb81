"""Whether ranks have the same number of batches."""

from __future__ import annotations

from collections.abc import Iterator

from aidiag.collectors.logs.comparing.found import RANKS_KEPT, found, listed, rank_of
from aidiag.collectors.observation import Event

BAR = "bar"
BAR_APART = 3
"""Progress bars of ranks that are stopped differ by a step or two."""


class Inputs:
    """The numbers of batches that ranks say they have, each name apart (of training, of validation)."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], dict[int, tuple[int, Event]]] = {}

    def add(self, event: Event) -> None:
        """Take note of a rank's number of batches."""
        if event.kind not in ("batches_counted", "epoch_ended"):
            return
        rank, batches = rank_of(event), event.fields.get("batches")
        name = (str(event.fields.get("message", "")), str(event.fields.get("name", event.fields.get("epoch", ""))))
        if rank is None or not isinstance(batches, int) or len(self._counts) > 64:
            return
        ranks = self._counts.setdefault(name, {})
        if name[1] == BAR and (rank in ranks or len(ranks) < RANKS_KEPT):
            ranks[rank] = (batches, event)
        elif len(ranks) < RANKS_KEPT:
            ranks.setdefault(rank, (batches, event))

    def finish(self) -> Iterator[Event]:
        """The ranks with the fewest and the most, where they differ."""
        for (_, name), ranks in self._counts.items():
            numbers = {number for number, _ in ranks.values()}
            fewest, most = min(numbers), max(numbers)
            if most - fewest < (BAR_APART if name == BAR else 1):
                continue
            short = [rank for rank, (number, _) in ranks.items() if number == fewest]
            for number in (fewest, most):
                event = next(event for count, event in ranks.values() if count == number)
                yield found("batches_differ", event, fewest=fewest, most=most, short=listed(short))
