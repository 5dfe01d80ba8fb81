"""The samples of one rank, and of a job, from its records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import ceil

from aidiag.collectors.comm_split import COMM, LATE_PEER, WIRE, CommSplit
from aidiag.collectors.launched_ranks import RankProcesses
from aidiag.collectors.observation import Absent, Sample, labels
from aidiag.collectors.rank_state import RankState
from aidiag.collectors.records import FoundRecord
from aidiag.collectors.subject import Subject, job, rank
from aidiag.trainer_shim.launchers import PlaceInJob
from aidiag.trainer_shim.model import Identity, LoaderRecord, Record, State

STAGES = {
    "attached": RankState.STARTING,
    "group_init": RankState.GROUP_INIT,
    "training": RankState.TRAINING,
    "failed": RankState.FAILED,
}
"""The stages that a record tells. Whether a trainer that ended has finished, no record says."""
KNOWN_PHASES = {"checkpoint": RankState.CHECKPOINT, "evaluation": RankState.EVALUATION}
"""Phases between steps that are no standstill, and the states that they are."""


def rank_samples(found: FoundRecord, subject: Subject, now: float, split: CommSplit) -> Iterator[Sample | Absent]:
    """Everything that the record of one rank says at `now` (monotonic seconds)."""
    record, state, identity = found.record, found.record.state, found.record.identity

    def sample(signal: str, value: float | str, **extra: str) -> Sample:
        return Sample(signal, subject, value, now, labels(**extra))

    yield sample(
        "rank_info",
        1.0,
        local_rank="" if identity.local_rank is None else str(identity.local_rank),
        gpu=identity.gpu,
        framework=identity.framework,
        launcher=identity.launcher,
    )
    if found.alive is None:
        yield Absent("rank_up", subject, "its process-id namespace cannot be seen from here", "Share it: hostPID.")
    else:
        yield sample("rank_up", float(found.alive))
    yield sample("rank_start_timestamp_seconds", identity.started_unix)
    yield sample("rank_heartbeat_timestamp_seconds", state.unix)
    yield sample("rank_state_code", float(state_of(state, alive=found.alive)))
    yield sample("rank_shim_attached", 1.0)
    if found.alive is not False:
        yield sample("rank_phase", state.phase)
        yield sample("rank_phase_seconds", max(0.0, now - state.phase_since))
        idle = idle_seconds(record, now)
        if idle is not None:
            yield sample("step_idle_seconds", idle)
    yield from _steps(record, state, subject, now, split)
    yield from _loaders(record.loaders, subject, now)
    for signal, value in (
        ("loss", state.loss),
        ("loss_scale", state.loss_scale),
        ("torch_memory_allocated_bytes", state.memory_allocated_bytes),
        ("torch_memory_reserved_bytes", state.memory_reserved_bytes),
        ("torch_memory_peak_bytes", state.memory_peak_bytes),
    ):
        if value is not None:
            yield sample(signal, float(value))
    yield sample("shim_hook_errors_total", float(state.hook_errors))
    yield sample("shim_overhead_seconds_total", state.overhead_seconds)


def _steps(record: Record, state: State, subject: Subject, now: float, split: CommSplit) -> Iterator[Sample]:
    yield Sample("steps_total", subject, float(state.steps), now)
    yield Sample("steps_skipped_total", subject, float(state.steps_skipped), now)
    yield Sample("step_seconds_total", subject, state.step_seconds, now)
    yield Sample("batches_total", subject, float(state.batches), now)
    # Checkpoints and evaluations are always watched: where there has been none, the time is known to be zero. So is
    # the communication of a job of one rank.
    communication = split.seconds((record.identity.job_id, record.identity.rank))
    if not communication and record.identity.world_size == 1:
        communication = {LATE_PEER: 0.0, WIRE: 0.0}
    phases = {"checkpoint": 0.0, "evaluation": 0.0, **state.phase_seconds}
    phases.pop(COMM, None)
    for phase, seconds in {**phases, **communication}.items():
        yield Sample("step_phase_seconds_total", subject, seconds, now, labels(phase=phase))
    if state.last_step_seconds is not None:
        yield Sample("step_last_seconds", subject, state.last_step_seconds, now)
    usual = sorted(step.seconds for step in record.steps if not step.first)
    if usual:
        yield Sample("step_p99_seconds", subject, usual[ceil(0.99 * len(usual)) - 1], now)
    if state.last_step_end is not None:
        unix = state.unix - state.monotonic + state.last_step_end
        yield Sample("step_last_end_timestamp_seconds", subject, unix, now)


def _loaders(loaders: tuple[LoaderRecord, ...], subject: Subject, now: float) -> Iterator[Sample]:
    names = Counter(loader.name for loader in loaders)
    for loader in loaders:
        name = labels(loader=loader.name if names[loader.name] == 1 else f"{loader.name}#{loader.index}")
        yield Sample("loader_wait_seconds_total", subject, loader.wait_seconds, now, name)
        yield Sample("loader_behind_batches_total", subject, float(loader.behind_batches), now, name)
        yield Sample("loader_batches_total", subject, float(loader.batches), now, name)
        yield Sample("loader_workers", subject, float(loader.workers), now, name)
        if loader.queue_batches is not None:
            yield Sample("loader_queue_batches", subject, float(loader.queue_batches), now, name)


def idle_seconds(record: Record, now: float) -> float | None:
    """Time since the last step ended, without what checkpoints and evaluations have taken since; None before the first.

    A phase that is under way counts from its own beginning: the totals in a record may lie behind it.
    """
    state = record.state
    if state.last_step_end is None:
        return None
    elapsed = now - state.last_step_end
    last = record.steps[-1] if record.steps else None
    if last is not None and last.number == state.steps + state.steps_skipped:
        elsewhere = sum(
            state.phase_seconds.get(phase, 0.0) - last.spent_seconds.get(phase, 0.0) for phase in KNOWN_PHASES
        )
    else:
        elsewhere = 0.0
    if state.phase in KNOWN_PHASES:
        elsewhere = max(elsewhere, 0.0) + now - max(state.phase_since, state.last_step_end)
    return max(0.0, elapsed - max(elsewhere, 0.0))


def job_samples(
    found: Mapping[tuple[str, int], FoundRecord], launched: Sequence[RankProcesses], host: str, now: float
) -> Iterator[Sample]:
    """What the records and processes of this host say of their jobs, and which ranks each job should have here."""
    for name in sorted({key[0] for key in found} | {one.job for one in launched}):
        places = [_place(one.record.identity) for key, one in found.items() if key[0] == name]
        attached = len(places)
        places += [one.place for one in launched if one.job == name]
        subject = job(name)
        yield Sample("job_world_size", subject, float(max(place.world_size for place in places)), now)
        yield Sample("job_ranks_seen", subject, float(len({place.rank for place in places})), now)
        yield Sample("job_ranks_attached", subject, float(attached), now)
        for number in sorted(expected_ranks(places)):
            yield Sample("rank_expected", rank(number, host=host, job=name), 1.0, now)


def expected_ranks(places: Sequence[PlaceInJob]) -> set[int]:
    """The ranks that should live where these ones do: those seen, and their neighbours by local rank and local size.

    Launchers number the ranks of a host in a row. Where the ranks seen contradict that (Slurm's cyclic distribution)
    only they themselves are expected.
    """
    seen = {place.rank for place in places}
    blocks = {
        (place.rank - place.local_rank, place.local_world_size)
        for place in places
        if place.local_rank is not None and place.local_world_size is not None
    }
    if len(blocks) != 1:
        return seen
    ((first, count),) = blocks
    block = set(range(first, first + count))
    return block if first >= 0 and seen <= block else seen


def _place(identity: Identity) -> PlaceInJob:
    return PlaceInJob(
        identity.launcher,
        identity.rank,
        identity.world_size,
        identity.local_rank,
        identity.local_world_size,
        identity.node_rank,
    )


def state_of(told: State, *, alive: bool | None = None) -> RankState:
    """The state of a trainer by its record, `alive` or not, None where that is not known."""
    state = STAGES.get(told.stage, RankState.UNKNOWN)
    if alive is False:
        return state if state == RankState.FAILED else RankState.UNKNOWN
    return KNOWN_PHASES.get(told.phase, state) if state == RankState.TRAINING else state
