"""The collector protocol: one source, read and parsed, never judged."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

from aidiag.collectors.node import Node
from aidiag.collectors.observation import Observation
from aidiag.collectors.signal import EventKind, Signal

if TYPE_CHECKING:
    from aidiag.collectors.records import RecordFinder


class Clock(Protocol):
    """Time as an argument."""

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back."""

    def unix(self) -> float:
        """Seconds since 1970."""


class SystemClock:
    """The clock of this machine."""

    def monotonic(self) -> float:
        """Seconds of CLOCK_MONOTONIC, which the shim's records use too."""
        return time.monotonic()

    def unix(self) -> float:
        """Seconds since 1970."""
        return time.time()


@dataclass(frozen=True, slots=True)
class Context:
    """What collectors are given: where to look, and for which job.

    `node` answers for the host. `job` limits the trainer's view to one job, None means all jobs of the host.
    `record_folders` are the folders of shim records; None means the usual places of `trainer_shim.record`.
    `job_folder` is `aidiag-<job>/` (shared by the hosts of a job) and `host_folder` this host's part of it, where
    one exists. `log_paths` are files to follow beside those in the host folder. `records` finds the shim records for
    all who work side by side; None lets each look for itself. `began_unix` is when the job started here, where that is
    known: a launch before it may have had the same id.
    """

    node: Node
    clock: Clock = field(default_factory=SystemClock)
    job: str | None = None
    record_folders: tuple[Path, ...] | None = None
    job_folder: Path | None = None
    host_folder: Path | None = None
    log_paths: tuple[Path, ...] = ()
    records: RecordFinder | None = None
    began_unix: float | None = None


class Collector(Protocol):
    """One source of facts.

    The runner, not the collector, times `collect`, gives it a deadline, catches what it raises and exports
    `collector_success`, `collector_duration_seconds` and `collector_last_success_timestamp_seconds`. Collectors inherit
    from this class, which has what most of them do not need otherwise.
    """

    name: ClassVar[str]
    interval_seconds: ClassVar[float]
    signals: ClassVar[tuple[Signal, ...]]
    events: ClassVar[tuple[EventKind, ...]]

    def __init__(self, context: Context) -> None:
        """Prepare; reads nothing yet."""

    def collect(self) -> Iterable[Observation]:
        """Read the source once. Raises errors.CollectorError where it cannot be read."""

    def watched(self) -> Collection[str]:
        """The event kinds of which the last run would have told, so that silence means that nothing happened."""
        return [kind.name for kind in self.events]

    def close(self) -> None:
        """Let go of what is held. Called once, after the last run and by the thread that ran it."""
        return
