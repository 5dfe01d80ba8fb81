"""The kinds of event that a comparison makes, and how it makes one from the event that shows it."""

from __future__ import annotations

from collections.abc import Iterable

from aidiag.collectors.logs.kinds.kind import kind
from aidiag.collectors.observation import Event, FieldValue
from aidiag.collectors.signal import EventKind

RANKS_KEPT = 4096
"""Of how many ranks the last word is remembered."""

COMPARED: tuple[EventKind, ...] = (
    kind(
        "rank",
        "ranks_compared",
        "Where ranks stood when a collective timed out: `how` they differ, and who is `apart` from most",
        "how sequence operation other_operation operations apart behind ahead silent gap size",
    ),
    kind("rank", "busy_before_timeout", "What a rank did alone before the others gave up waiting", "what item busy rank went_on"),
    kind("rank", "batches_differ", "Ranks have different numbers of batches", "fewest most short"),
    kind("rank", "data_ended_before_timeout", "A rank came to the end of its data, and others waited", "ended end silent"),
    kind("rank", "steps_timed", "Where the time of the steps went over a whole log", "input_share comm_share step_seconds input_seconds steps"),
    kind("rank", "saves_timed", "How long checkpoints took over a whole log", "seconds saves share every"),
    kind("rank", "profile_read", "What a profiler's table says in all", "sync_percent sync_calls input_percent launch_percent comm_percent"),
    kind("rank", "rank_slower", "One rank computes longer for each step than the others", "seconds usual ratio"),
    kind("rank", "rank_input_slower", "One rank waits longer for its input at each step than the others", "seconds usual ratio part"),
    kind("host", "gpu_use", "The most that any GPU was used, in percent, of all that was told", "highest"),
    kind("host", "cpus_compared", "How few CPUs a job may use", "allowed present workers how"),
    kind("host", "throttling_compared", "In what part of the periods a cgroup was held back at its quota", "share periods"),
    kind("host", "host_load", "What tables of processes and disks say in all", "cores_used processes"),
)  # fmt: skip


def found(kind: str, at: Event, **fields: FieldValue | None) -> Event:
    """An event of a comparison, with the evidence, time and place of `at`."""
    kept = {name: value for name, value in fields.items() if value is not None}
    kept |= {name: at.fields[name] for name in ("message", "severity", "host") if name in at.fields}
    return Event(kind, at.subject, at.time, kept, at.unix, at.place, at.order)


def rank_of(event: Event) -> int | None:
    """The rank of the job that an event is about."""
    if event.subject is not None and event.subject.kind == "rank" and event.subject.name.isdigit():
        return int(event.subject.name)
    rank = event.fields.get("rank")
    return rank if isinstance(rank, int) else None


def listed(ranks: Iterable[int]) -> str:
    """Ranks as rules take them: `0-2, 5`."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and runs[-1][1] == rank - 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ", ".join(f"{low}-{high}" if high > low else f"{low}" for low, high in runs)
