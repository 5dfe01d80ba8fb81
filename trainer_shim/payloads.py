"""Values out of the payloads of a record, which anybody may have written.

Texts are bounded and printable, numbers are what this program can hold, and what cannot be is refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Optional, Union, cast

from . import launchers, layout
from .model import FieldValue, Identity, LoaderRecord, Note, RecordError, State, StepRecord, seconds_by_phase

if TYPE_CHECKING:
    from typing_extensions import TypeGuard

TEXT_LIMIT = 256
MAP_ENTRIES_LIMIT = 256
_SECONDS_LIMIT = 1e12


def known_number(value: int) -> Optional[int]:
    """A number that the writer knew, None for the one that stands for unknown."""
    return None if value == layout.UNKNOWN else value


def json_object(payload: bytes) -> dict[str, Any]:
    """The JSON object in a payload. Raises RecordError."""
    try:
        value = json.loads(payload.decode("utf-8"))
    except (ValueError, RecursionError):
        raise RecordError("damaged", "a text in the record is not JSON") from None
    if not isinstance(value, dict):
        raise RecordError("damaged", "a text in the record is not a JSON object")
    return cast("dict[str, Any]", value)


def _text(value: object, limit: int = TEXT_LIMIT) -> str:
    """A printable text of bounded length; what cannot be printed becomes a question mark."""
    if not isinstance(value, str):
        return ""
    return "".join(char if char.isprintable() else "?" for char in value[:limit])


def _small(value: object) -> TypeGuard[Union[int, float]]:
    """Whether a value of JSON is a number that this program can hold."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -(2**63) <= value < 2**64


def _count(raw: Mapping[str, Any], name: str, *, least: int = 0) -> int:
    value = raw.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**63:
        raise RecordError("damaged", f"the identity has no valid {name}")
    return value


def _optional_count(raw: Mapping[str, Any], name: str) -> Optional[int]:
    return None if raw.get(name) is None else _count(raw, name)


def _unix(raw: Mapping[str, Any], name: str) -> float:
    value = raw.get(name)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < _SECONDS_LIMIT:
        raise RecordError("damaged", f"the identity has no valid {name}")
    return float(value)


def _texts(raw: object) -> dict[str, str]:
    if not isinstance(raw, dict):
        return {}
    return {
        _text(name): _text(value) for name, value in list(raw.items())[:MAP_ENTRIES_LIMIT] if isinstance(value, str)
    }


def identity_of(raw: Mapping[str, Any]) -> Identity:
    """An identity from its JSON. Raises RecordError for ranks, numbers or a job id that cannot be."""
    rank, world_size = _count(raw, "rank"), _count(raw, "world_size")
    local_rank, local_size = _optional_count(raw, "local_rank"), _optional_count(raw, "local_world_size")
    if not launchers.valid(rank, world_size) or (local_size or 0) > world_size or (local_rank or 0) >= world_size:
        raise RecordError("damaged", "the identity holds ranks that cannot be")
    job_id = _text(raw.get("job_id"))
    if not job_id or "/" in job_id:
        raise RecordError("damaged", "the identity has no valid job id")
    return Identity(
        job_id=job_id,
        rank=rank,
        world_size=world_size,
        local_rank=local_rank,
        local_world_size=local_size,
        node_rank=_optional_count(raw, "node_rank"),
        host=_text(raw.get("host")),
        boot_id=_text(raw.get("boot_id")),
        pid_namespace=_count(raw, "pid_namespace"),
        pid=_count(raw, "pid", least=1),
        start_ticks=_count(raw, "start_ticks"),
        started_unix=_unix(raw, "started_unix"),
        attached_unix=_unix(raw, "attached_unix"),
        launcher=_text(raw.get("launcher")),
        framework=_text(raw.get("framework")),
        script=_text(raw.get("script")),
        gpu=_text(raw.get("gpu")),
        gpu_uuid=_text(raw.get("gpu_uuid")),
        restart_count=_count(raw, "restart_count"),
        versions=_texts(raw.get("versions")),
        env=_texts(raw.get("env")),
    )


def brought_up(state: State, items: Mapping[int, bytes]) -> State:
    """A state brought up to the steps that have ended since it was written."""
    known = state.steps + state.steps_skipped
    later = [payload for number, payload in items.items() if number > known]
    if not later:
        return state
    heads = [layout.STEP_HEAD.unpack_from(payload) for payload in later]
    end, loss, batches, flags, _ = heads[-1]
    before = items.get(known + len(later) - 1)
    began = layout.STEP_HEAD.unpack_from(before)[0] / 1e9 if before is not None else None
    spent = layout.SPENT.unpack_from(later[-1], layout.STEP_HEAD.size)
    skipped = sum(bool(head[3] & layout.STEP_SKIPPED) for head in heads)
    heartbeat = max(state.monotonic, end / 1e9)
    return replace(
        state,
        monotonic=heartbeat,
        unix=state.unix + heartbeat - state.monotonic,
        steps=state.steps + len(later) - skipped,
        steps_skipped=state.steps_skipped + skipped,
        batches=state.batches + (batches - state.batches & 0xFFFFFFFF),
        step_seconds=sum(spent) / 1e9,
        last_step_seconds=end / 1e9 - began if began is not None else state.last_step_seconds,
        last_step_end=end / 1e9,
        phase_seconds=seconds_by_phase(spent),
        loss=loss if flags & layout.STEP_LOSS else state.loss,
    )


def steps_of(items: Mapping[int, bytes], after: int) -> tuple[StepRecord, ...]:
    """The steps later than number `after` whose predecessor is there, too: an item holds totals."""
    spent = {number: layout.SPENT.unpack_from(payload, layout.STEP_HEAD.size) for number, payload in items.items()}
    return tuple(
        _step(number, payload, spent[number], spent[number - 1])
        for number, payload in items.items()
        if number > after and number - 1 in spent
    )


def _step(number: int, payload: bytes, spent: tuple[int, ...], before: tuple[int, ...]) -> StepRecord:
    end, loss, batches, flags, _ = layout.STEP_HEAD.unpack_from(payload)
    return StepRecord(
        number=number,
        end=end / 1e9,
        seconds=max(sum(spent) - sum(before), 0) / 1e9,
        spent_ns=spent,
        before_ns=before,
        batches=batches,
        loss=loss if flags & layout.STEP_LOSS else None,
        skipped=bool(flags & layout.STEP_SKIPPED),
        first=bool(flags & layout.STEP_FIRST),
    )


def loader_of(index: int, payload: bytes) -> LoaderRecord:
    """The record of one loader from the payload of its newest whole item."""
    wait, evaluation_wait, batches, iterations, behind, queue = layout.LOADER_COUNTS.unpack_from(payload)
    name, dataset, workers, pid_count, role = layout.LOADER_FACTS.unpack_from(payload, layout.LOADER_COUNTS.size)
    pids = payload[layout.LOADER_BYTES :][: min(pid_count, layout.WORKER_PIDS) * layout.PID.size]
    return LoaderRecord(
        index=index,
        name=_name(name) or f"loader-{index}",
        dataset=_name(dataset),
        role=layout.ROLES[role] if role < len(layout.ROLES) else layout.ROLES[layout.ROLE_UNKNOWN],
        workers=workers,
        worker_pids=tuple(
            pid for (pid,) in layout.PID.iter_unpack(pids[: len(pids) // layout.PID.size * layout.PID.size])
        ),
        queue_batches=None if queue < 0 else queue,
        behind_batches=behind,
        wait_seconds=wait / 1e9,
        evaluation_wait_seconds=evaluation_wait / 1e9,
        batches=batches,
        iterations=iterations,
    )


def _name(raw: bytes) -> str:
    return _text(raw.split(b"\0", 1)[0].decode("utf-8", "replace"), layout.NAME_BYTES)


def note_of(sequence: int, payload: bytes) -> Optional[Note]:
    """One note, None where it is not one: a bad note takes nothing else with it."""
    try:
        raw = json_object(payload)
    except RecordError:
        return None
    unix, monotonic, fields = raw.get("unix"), raw.get("monotonic"), raw.get("fields")
    if not _small(unix) or not _small(monotonic) or not isinstance(fields, dict):
        return None
    kept: dict[str, FieldValue] = {}
    for name, value in list(fields.items())[:MAP_ENTRIES_LIMIT]:
        if isinstance(value, str):
            kept[_text(name)] = _text(value, 2 * TEXT_LIMIT)
        elif isinstance(value, bool) or (_small(value) and math.isfinite(value)):
            kept[_text(name)] = value
    return Note(sequence, _text(raw.get("kind")), float(unix), float(monotonic), kept)


def numbers_of(payload: bytes) -> dict[str, float]:
    """Values that a program logged, by their names; what is no number is left out. Raises RecordError."""
    values = json_object(payload)
    return {_text(name): float(value) for name, value in list(values.items())[:MAP_ENTRIES_LIMIT] if _small(value)}
