"""The other hosts of the job, through the state that their sidecars share in the job folder.

Each sidecar replaces `<job folder>/<host>/state.json` every few seconds; this collector reads those of the other hosts
and gives their samples and events on, moved to this host's clock (peer_clock). Trust ends at the file: sizes and
counts are capped, a broken file costs that host only, a broken entry only itself, and only shared subjects are taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import msgspec

from aidiag.collectors.bounded import read_bounded
from aidiag.collectors.collector import Clock, Collector, Context
from aidiag.collectors.errors import CollectorError, UnavailableError
from aidiag.collectors.observation import Absent, Event, Observation, Place, Sample
from aidiag.collectors.peer_clock import PeerClock
from aidiag.collectors.signal import EventKind, Signal
from aidiag.collectors.subject import SUBJECT_KINDS, Subject, host

STATE_FILE = "state.json"
STATE_LIMIT_BYTES = 8 << 20
HOSTS_CAP = 4096
EVENTS_CAP = 2_000
"""Events that are taken of one state; a sidecar shares its newest 500."""
KEYS_KEPT = 10_000
"""Events of one host of which it is remembered that they have been told."""

T = TypeVar("T")

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
    """An event as it is shared. `time` is by the sharing host's steady clock: unlike `unix`, which is worked out from
    it where the source states none, it stays the same each time that the event is shared.
    """

    kind: str
    subject_kind: str
    subject_name: str
    unix: float | None
    time: float | None = None
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
    """The state of this host as its peers read it. JSON has no NaN and no infinity: such readings are left out."""
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
                if isinstance(s.value, str) or math.isfinite(s.value)
            ],
            events=[
                SharedEvent(
                    e.kind,
                    e.subject.kind,
                    e.subject.name,
                    e.unix if e.unix is not None else None if e.time is None else e.time + offset,
                    e.time,
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
    """Read a shared state; samples and events that are none are left out. Raises CollectorError where it is no state."""
    try:
        try:
            return msgspec.json.decode(text, type=State)
        except msgspec.ValidationError:
            return _decode_what_is_whole(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise CollectorError(f"not a shared state: {problem}") from None


def _decode_what_is_whole(text: bytes) -> State:
    facts = msgspec.json.decode(text, type=dict[str, Any])
    lists = {name: facts.pop(name, None) for name in ("samples", "events")}
    state = msgspec.convert(facts, type=State)
    return msgspec.structs.replace(
        state, samples=_whole(lists["samples"], SharedSample), events=_whole(lists["events"], SharedEvent)
    )


def _whole(items: object, kind: type[T]) -> list[T]:
    found = []
    for item in items if isinstance(items, list) else ():
        try:
            found.append(msgspec.convert(item, type=kind))
        except msgspec.ValidationError:
            continue
    return found


@dataclass(slots=True)
class _Peer:
    """What is remembered of one peer: its last state, that state's text by its hash, and the events told."""

    clock: PeerClock = field(default_factory=PeerClock)
    state: State | None = None
    text: int = 0
    told: dict[tuple[object, ...], None] = field(default_factory=dict)


class PeersCollector(Collector):
    """The other hosts of the job, through the state that their sidecars share in the job folder."""

    name: ClassVar[str] = "peers"
    interval_seconds: ClassVar[float] = 2.0
    signals: ClassVar[tuple[Signal, ...]] = SIGNALS
    events: ClassVar[tuple[EventKind, ...]] = EVENTS

    def __init__(self, context: Context) -> None:
        self._context = context
        self._peers: dict[str, _Peer] = {}

    def collect(self) -> Iterable[Observation]:
        """Read the state of every other host. Raises UnavailableError where no folder is shared."""
        folder = self._context.job_folder
        if folder is None:
            raise UnavailableError(
                "no job folder is shared with other hosts", "give --out a folder that all hosts share"
            )
        paths = sorted(folder.glob(f"*/{STATE_FILE}"))[:HOSTS_CAP]
        self._peers = {path.parent.name: self._peers.get(path.parent.name) or _Peer() for path in paths}
        own = self._context.host_folder.name if self._context.host_folder is not None else None
        return [one for path in paths if path.parent.name != own for one in self._of_peer(path)]

    def _of_peer(self, path: Path) -> Iterator[Observation]:
        """What a peer tells: always how old its state is, and what is in it where that is new."""
        name = path.parent.name
        peer = self._peers[name]
        try:
            text = read_bounded(path, STATE_LIMIT_BYTES)
            key = hash(text)
            is_new = peer.state is None or key != peer.text
            if is_new:
                peer.state, peer.text = None, key
                peer.state = decode_state(text)
        except (CollectorError, OSError) as problem:
            yield Absent("peer_state_age_seconds", host(name), f"{name}/{path.name}: {problem}")
            return
        state = peer.state
        if state is None or (self._context.job is not None and state.job != self._context.job):
            return
        clock = self._context.clock
        now, unix = clock.monotonic(), clock.unix()
        peer.clock.seen(state.unix, now, unix)
        whose = host(state.host)
        yield Sample("peer_state_age_seconds", whose, peer.clock.age(now), now)
        yield Sample("peer_sidecar_ended", whose, float(state.ended), now)
        if is_new:
            to_monotonic = now - unix + peer.clock.behind
            yield from _samples(state, to_monotonic, now)
            yield from _new_events(state, to_monotonic, peer.told)


def _samples(state: State, to_monotonic: float, now: float) -> Iterator[Sample]:
    for sample in state.samples:
        subject = _subject(sample.kind, sample.name, state)
        if subject is not None:
            yield Sample(sample.signal, subject, sample.value, min(now, sample.unix + to_monotonic), sample.labels)


def _new_events(state: State, to_monotonic: float, told: dict[tuple[object, ...], None]) -> Iterator[Event]:
    for event in state.events[-EVENTS_CAP:]:
        when = event.unix if event.time is None else event.time
        key = (event.kind, event.subject_name, when, event.source, event.line, event.text)
        subject = _subject(event.subject_kind, event.subject_name, state)
        if subject is None:
            continue
        if key not in told:
            yield event_of(event, subject, to_monotonic)
        told.pop(key, None)
        told[key] = None
    for old in list(told)[: max(0, len(told) - KEYS_KEPT)]:
        del told[old]


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
