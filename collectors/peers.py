"""The other hosts of the job, through the state that their sidecars share in the job folder.

Each sidecar replaces `<job folder>/<host>/state.json` every few seconds; this collector reads those of the other hosts
and gives their samples and events on, moved to this host's clock. Trust ends at the file: sizes and counts are
capped, a broken file costs that host only, and only shared subjects are taken.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec

from aidiag.collectors.collector import Clock, Collector, Context
from aidiag.collectors.errors import CollectorError, UnavailableError
from aidiag.collectors.observation import Absent, Event, Observation, Place, Sample
from aidiag.collectors.signal import EventKind, Signal
from aidiag.collectors.subject import SUBJECT_KINDS, Subject, host

STATE_FILE = "state.json"
STATE_LIMIT_BYTES = 8 << 20
STALE_SECONDS = 15.0
HOSTS_CAP = 4096

SIGNALS: tuple[Signal, ...] = (
    Signal("peer_state_age_seconds", "gauge", "seconds", "host", "Age of the last state that a peer's sidecar shared"),
    Signal(
        "peer_sidecar_ended", "gauge", "count", "host", "1 when the last state of a peer's sidecar says that it ended"
    ),
)

EVENTS: tuple[EventKind, ...] = ()


class SharedSample(msgspec.Struct, frozen=True, array_like=True):
    """A sample as it is shared; `unix` is when it was read."""

    signal: str
    kind: str
    name: str
    value: float | str
    unix: float
    labels: tuple[tuple[str, str], ...] = ()


class SharedEvent(msgspec.Struct, frozen=True):
    """An event as it is shared."""

    kind: str
    subject_kind: str
    subject_name: str
    unix: float | None
    fields: dict[str, Any] = {}
    source: str = ""
    line: int | None = None
    text: str = ""


class State(msgspec.Struct, frozen=True):
    """What one sidecar shares. `port` is where it serves, 0 where it does not; `ended` when it has finished."""

    schema: Literal["aidiag.state/v1"]
    host: str
    job: str
    unix: float
    samples: list[SharedSample] = []
    events: list[SharedEvent] = []
    port: int = 0
    ended: bool = False


def encode_state(
    host_name: str,
    job: str,
    clock: Clock,
    samples: Iterable[Sample],
    events: Iterable[Event],
    *,
    port: int,
    ended: bool,
) -> bytes:
    """The state of this host as its peers read it."""
    offset = clock.unix() - clock.monotonic()
    return msgspec.json.encode(
        State(
            schema="aidiag.state/v1",
            host=host_name,
            job=job,
            unix=clock.unix(),
            port=port,
            ended=ended,
            samples=[
                SharedSample(s.signal, s.subject.kind, s.subject.name, s.value, s.time + offset, s.labels)
                for s in samples
            ],
            events=[
                SharedEvent(
                    e.kind,
                    e.subject.kind,
                    e.subject.name,
                    e.unix if e.unix is not None else None if e.time is None else e.time + offset,
                    dict(e.fields),
                    e.place.source if e.place else "",
                    e.place.line if e.place else None,
                    e.place.text if e.place else "",
                )
                for e in events
                if e.subject is not None
            ],
        )
    )


def decode_state(text: bytes) -> State:
    """Read a shared state. Raises CollectorError where it is none."""
    try:
        return msgspec.json.decode(text, type=State)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as problem:
        raise CollectorError(f"not a shared state: {problem}") from None


def read_bounded(path: Path, limit_bytes: int) -> bytes:
    """A regular file's content. Raises CollectorError for links, other kinds of file and larger ones."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise CollectorError(f"{path} is not a regular file")
        if status.st_size > limit_bytes:
            raise CollectorError(f"{path} is larger than {limit_bytes} bytes")
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            return stream.read(limit_bytes)
    finally:
        os.close(descriptor)


class PeersCollector(Collector):
    """The other hosts of the job, through the state that their sidecars share in the job folder."""

    name: ClassVar[str] = "peers"
    interval_seconds: ClassVar[float] = 2.0
    signals: ClassVar[tuple[Signal, ...]] = SIGNALS
    events: ClassVar[tuple[EventKind, ...]] = EVENTS

    def __init__(self, context: Context) -> None:
        self._context = context
        self._seen_events: dict[str, set[tuple[object, ...]]] = {}

    def collect(self) -> Iterable[Observation]:
        """Read the state of every other host. Raises UnavailableError where no folder is shared."""
        folder = self._context.job_folder
        if folder is None:
            raise UnavailableError(
                "no job folder is shared with other hosts", "give --out a folder that all hosts share"
            )
        observations: list[Observation] = []
        for path in sorted(folder.glob(f"*/{STATE_FILE}"))[:HOSTS_CAP]:
            name = path.parent.name
            if self._context.host_folder is not None and name == self._context.host_folder.name:
                continue
            observations.extend(self._peer(name, path))
        return observations

    def _peer(self, folder_name: str, path: Path) -> Iterator[Observation]:
        try:
            state = decode_state(read_bounded(path, STATE_LIMIT_BYTES))
        except (CollectorError, OSError) as problem:
            yield Absent("peer_state_age_seconds", host(folder_name), f"{path.parent.name}/{path.name}: {problem}")
            return
        if self._context.job is not None and state.job != self._context.job:
            return
        clock = self._context.clock
        now, unix = clock.monotonic(), clock.unix()
        age = max(0.0, unix - state.unix)
        peer = host(state.host)
        yield Sample("peer_state_age_seconds", peer, age, now)
        yield Sample("peer_sidecar_ended", peer, float(state.ended), now)
        to_monotonic = now - unix
        for sample in state.samples:
            subject = _subject(sample.kind, sample.name, state)
            if subject is not None:
                yield Sample(sample.signal, subject, sample.value, min(now, sample.unix + to_monotonic), sample.labels)
        yield from self._new_events(state, to_monotonic)

    def _new_events(self, state: State, to_monotonic: float) -> Iterator[Event]:
        seen = self._seen_events.setdefault(state.host, set())
        for event in state.events:
            key = (event.kind, event.subject_name, event.unix, event.source, event.line, event.text)
            subject = _subject(event.subject_kind, event.subject_name, state)
            if key in seen or subject is None or len(seen) > 10_000:
                continue
            seen.add(key)
            yield event_of(event, subject, to_monotonic)


def event_of(shared: SharedEvent, subject: Subject, to_monotonic: float) -> Event:
    """The event that was shared, moved to the clock that is `to_monotonic` ahead of Unix time."""
    fields: Mapping[str, str | int | float | bool] = {
        key: value for key, value in shared.fields.items() if isinstance(value, str | int | float | bool)
    }
    return Event(
        shared.kind,
        subject,
        None if shared.unix is None else shared.unix + to_monotonic,
        fields,
        shared.unix,
        Place(shared.source, shared.line, shared.text) if shared.source else None,
    )


def _subject(kind: str, name: str, state: State) -> Subject | None:
    """The subject of a shared sample: always on the peer's own host, whatever the file says."""
    for known in SUBJECT_KINDS:
        if known == kind:
            if known == "job":
                return Subject("job", state.job, job=state.job)
            if known == "host":
                return host(state.host)
            return Subject(known, name, host=state.host, job=state.job if known == "rank" else "")
    return None
