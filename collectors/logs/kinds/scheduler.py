"""What a scheduler answers when it is asked."""

from __future__ import annotations

from aidiag.collectors.logs.kinds.kind import kind
from aidiag.collectors.signal import EventKind

KINDS: tuple[EventKind, ...] = (
    kind("host", "node_out_of_service", "The scheduler or a person took a node out of service", "host state reason"),
)
