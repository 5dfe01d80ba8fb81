"""Where ranks stood when a collective timed out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from aidiag.collectors.logs.comparing.found import RANKS_KEPT, found, listed, rank_of
from aidiag.collectors.observation import Event

_SIZES_MAY_DIFFER = ("ALLTOALL", "SEND", "RECV", "SCATTER", "GATHER", "UNKNOWN")
_SIZES_MUST_AGREE = ("_REDUCE_SCATTER_BASE", "REDUCE_SCATTER", "_ALLGATHER_BASE", "ALLGATHER")


@dataclass(slots=True)
class _Waiting:
    """What one rank of a group waited in when it gave up."""

    event: Event
    sequence: int | None
    operation: str
    size: str


GAP_OF_ONE_GROUP = 2_000
"""Older versions do not say which group a rank waits in. Numbers further apart are hardly of one."""


class Collectives:
    """The waiting ranks of each process group: in the same call, in different ones, or one rank elsewhere.

    Ranks that wait in the same group for different operations, or for other sizes, at one sequence number run different code.
    Ranks at different numbers have left out or added calls. A rank that enqueued less than the others wait for, or that alone
    says nothing, is still in its own code.
    """

    def __init__(self) -> None:
        self._groups: dict[str, dict[int, _Waiting]] = {}
        self._enqueued: dict[str, dict[int, tuple[int, Event]]] = {}
        self._world = 0

    def add(self, event: Event) -> None:
        """Take note of a timeout, of what a rank had enqueued, or of the number of ranks."""
        fields = event.fields
        if event.kind in ("nccl_init_started", "nccl_init_completed"):
            ranks = fields.get("comm_ranks")
            self._world = max(self._world, ranks if isinstance(ranks, int) else 0)
            return
        if event.kind not in ("collective_timeout", "collective_state"):
            return
        rank = rank_of(event)
        member = fields.get("group_rank")
        rank = member if rank is None and isinstance(member, int) else rank
        if rank is None:
            return
        group = _group(str(fields.get("group", "")))
        sequence = fields.get("sequence")
        if event.kind == "collective_state":
            enqueued, states = fields.get("last_enqueued"), self._enqueued.setdefault(group, {})
            if isinstance(enqueued, int) and len(states) < RANKS_KEPT:
                states.setdefault(rank, (enqueued, event))
            return
        waiting = self._groups.setdefault(group, {})
        operation = str(fields.get("operation", ""))
        if len(waiting) < RANKS_KEPT and not operation.startswith(("SEND", "RECV", "COALESCED")):
            size = (
                str(fields["shape"])
                if "shape" in fields
                else f"{fields.get('numel_in', '')} to {fields.get('numel_out', '')}"
            )
            waiting.setdefault(rank, _Waiting(event, sequence if isinstance(sequence, int) else None, operation, size))

    def finish(self) -> Iterator[Event]:
        """How the ranks of each group differ."""
        for group, waiting in self._groups.items():
            numbers = [one.sequence for one in waiting.values() if one.sequence is not None]
            named = any("group" in one.event.fields for one in waiting.values())
            if numbers and not named and max(numbers) - min(numbers) > GAP_OF_ONE_GROUP:
                continue
            states = self._enqueued.get(group) or self._enqueued.get("", {})
            # Of the default group alone it is known who its members are.
            everyone = range(max([self._world, *(rank + 1 for rank in waiting)])) if not group else ()
            yield from self._of_group(waiting, states, everyone)

    def _of_group(
        self, waiting: dict[int, _Waiting], states: dict[int, tuple[int, Event]], everyone: Iterable[int]
    ) -> Iterator[Event]:
        if not waiting:
            return
        lowest = min((one.sequence for one in waiting.values() if one.sequence is not None), default=None)
        if lowest is not None:
            behind = {rank: event for rank, (enqueued, event) in states.items() if 0 <= enqueued < lowest}
            # One that waits itself has enqueued what it waits for, whatever else is said of it.
            behind = {rank: event for rank, event in behind.items() if rank not in waiting}
            if behind and len(behind) <= len(waiting):
                named, waits = listed(behind), next(iter(waiting.values()))
                for event in (*behind.values(), waits.event):
                    yield found(
                        "ranks_compared",
                        event,
                        how="absent",
                        behind=named,
                        apart=named,
                        sequence=lowest,
                        operation=waits.operation,
                    )
                return
        first, other, how = self._difference(waiting)
        if other is not None:
            sides = Counter((one.sequence, one.operation, one.size) for one in waiting.values())
            rare, most = sides.most_common()[-1][1], sides.most_common(1)[0]
            apart = [rank for rank, one in waiting.items() if (one.sequence, one.operation, one.size) != most[0]]
            sequences = [one.sequence for one in waiting.values() if one.sequence is not None]
            ahead = [rank for rank, one in waiting.items() if sequences and (one.sequence or 0) > min(sequences)]
            for one in (first, other):
                yield found(
                    "ranks_compared",
                    one.event,
                    how=how,
                    sequence=first.sequence,
                    operation=first.operation,
                    other_operation=other.operation,
                    operations=f"{first.operation} ({first.size}) and {other.operation} ({other.size})",
                    apart=listed(apart) if rare < most[1] else None,
                    ahead=listed(ahead) if ahead else None,
                    behind=listed(set(waiting) - set(ahead)) if ahead else None,
                    gap=max(sequences) - min(sequences) if sequences else None,
                    size=other.size,
                )
            return
        silent = set(everyone) - set(waiting)
        told = bool(silent) and len(silent) <= max(1, len(waiting) // 3) and len(waiting) >= 2
        yield found(
            "ranks_compared",
            first.event,
            how="silent" if told else "equal",
            sequence=first.sequence,
            operation=first.operation,
            silent=listed(silent) if told else None,
            apart=listed(silent) if told else None,
            size=first.size,
        )

    @staticmethod
    def _difference(waiting: dict[int, _Waiting]) -> tuple[_Waiting, _Waiting | None, str]:
        """Two ranks that differ, the one further behind first, and how."""
        ordered = sorted(waiting.values(), key=lambda one: -1 if one.sequence is None else one.sequence)
        first = ordered[0]
        for one in ordered:
            if one.sequence == first.sequence and one.operation != first.operation:
                return first, one, "operation"
        for one in ordered:
            same = one.sequence == first.sequence and one.operation == first.operation
            if same and one.size != first.size and _sizes_agree(one.operation):
                return first, one, "size"
        if ordered[-1].sequence != first.sequence and first.sequence is not None:
            return first, ordered[-1], "apart"
        return first, None, "equal"


def _sizes_agree(operation: str) -> bool:
    return operation in _SIZES_MUST_AGREE or not any(part in operation for part in _SIZES_MAY_DIFFER)


def _group(text: str) -> str:
    """A name for a process group that its ranks agree on: the default group goes by several."""
    return "" if not text or "default_pg" in text or text.split()[:1] == ["0"] or text.startswith("ID 0") else text
