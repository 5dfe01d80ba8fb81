"""The other hosts of the job, through the state that their sidecars share in the job folder."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from aidiag.collectors.collector import Context
from aidiag.collectors.observation import Observation
from aidiag.collectors.signal import EventKind, Signal

SIGNALS: tuple[Signal, ...] = (
    Signal("peer_state_age_seconds", "gauge", "seconds", "host", "Age of the last state that a peer's sidecar shared"),
)

EVENTS: tuple[EventKind, ...] = ()


class PeersCollector:
    """The other hosts of the job, through the state that their sidecars share in the job folder."""

    name: ClassVar[str] = "peers"
    interval_seconds: ClassVar[float] = 2.0
    signals: ClassVar[tuple[Signal, ...]] = SIGNALS
    events: ClassVar[tuple[EventKind, ...]] = EVENTS

    def __init__(self, context: Context) -> None:
        self._context = context

    def collect(self) -> Iterable[Observation]:
        """Read the source once."""
        return ()
