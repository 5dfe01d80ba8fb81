"""What a record says, as its reader hands it on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Optional, Union

from .layout import PHASES

FieldValue = Union[str, int, float, bool]


class RecordError(Exception):
    """A file gives no record.

    `code` is one of `not_ready` (made, but nothing in it yet), `not_a_record`, `newer_layout`, `damaged`, `busy`
    (every try met a write), `refused` (a link, a special file, somebody else's file) and `unreadable`.
    """

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


@dataclass(frozen=True)
class Identity:
    """Who a trainer is. None and empty texts stand for what it did not know."""

    job_id: str
    rank: int
    world_size: int
    local_rank: Optional[int]
    local_world_size: Optional[int]
    node_rank: Optional[int]
    host: str
    boot_id: str
    pid_namespace: int
    pid: int
    start_ticks: int
    started_unix: float
    attached_unix: float
    launcher: str
    framework: str
    script: str
    gpu: str
    gpu_uuid: str
    restart_count: int
    versions: Mapping[str, str]
    env: Mapping[str, str]


@dataclass(frozen=True)
class State:
    """Where a trainer stood when it last gave a sign of life, at `monotonic` (CLOCK_MONOTONIC seconds).

    `phase_seconds` holds the phases that the trainer has ever been in: one that is missing was not measured. The
    seconds of all phases add up to `step_seconds`, the step that is under way included. `loss`, `loss_scale` and the
    bytes of memory are None where they were never told.
    """

    sequence: int
    monotonic: float
    unix: float
    stage: str
    phase: str
    phase_since: float
    steps: int
    steps_skipped: int
    batches: int
    step_seconds: float
    last_step_seconds: Optional[float]
    last_step_end: Optional[float]
    phase_seconds: Mapping[str, float]
    overhead_seconds: float
    hook_errors: int
    calls_dropped: int
    loss: Optional[float]
    loss_scale: Optional[float]
    memory_allocated_bytes: Optional[int]
    memory_reserved_bytes: Optional[int]
    memory_peak_bytes: Optional[int]
    memory_inactive_split_bytes: Optional[int]
    memory_alloc_retries: Optional[int]
    memory_ooms: Optional[int]


class StepRecord(NamedTuple):  # hundreds are made each second: a dataclass takes several times as long
    """One step: its number (from 1, skipped ones counted), monotonic end and wall seconds.

    `spent_ns` is the total of each phase (`layout.PHASES`) from the first step to the end of this one, `before_ns` that
    at the end of the step before.
    """

    number: int
    end: float
    seconds: float
    spent_ns: tuple[int, ...]
    before_ns: tuple[int, ...]
    batches: int
    loss: Optional[float]
    skipped: bool
    first: bool

    @property
    def phases(self) -> Mapping[str, float]:
        """The seconds of each phase that the step had."""
        both = zip(PHASES, self.spent_ns, self.before_ns)
        return {phase: (now - then) / 1e9 for phase, now, then in both if now > then}

    @property
    def spent_seconds(self) -> Mapping[str, float]:
        """The total of each phase that there has been."""
        return seconds_by_phase(self.spent_ns)


def seconds_by_phase(spent_ns: tuple[int, ...]) -> dict[str, float]:
    """Totals of phases by their names; a phase that has not been is left out."""
    return {phase: value / 1e9 for phase, value in zip(PHASES, spent_ns) if value}


@dataclass(frozen=True)
class LoaderRecord:
    """One data loader. `wait_seconds` is what steps waited for it; waits during evaluation are kept apart.

    `behind_batches` counts the steps of a distributed job in which the loader was still at work when the trainer's own
    work was done: without its peers to wait for, the trainer would have waited for this loader.
    """

    index: int
    name: str
    dataset: str
    role: str
    workers: int
    worker_pids: tuple[int, ...]
    queue_batches: Optional[int]
    behind_batches: int
    wait_seconds: float
    evaluation_wait_seconds: float
    batches: int
    iterations: int


@dataclass(frozen=True)
class Note:
    """A rare event: an exception, a hook that gave up, memory that ran out."""

    sequence: int
    kind: str
    unix: float
    monotonic: float
    fields: Mapping[str, FieldValue]


@dataclass(frozen=True)
class Record:
    """All that a record file holds."""

    version: tuple[int, int]
    identity: Identity
    state: State
    steps: tuple[StepRecord, ...]
    loaders: tuple[LoaderRecord, ...]
    notes: tuple[Note, ...]
    values: Mapping[str, float]
