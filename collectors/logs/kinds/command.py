"""Commands that somebody ran at a prompt, and what came out."""

from __future__ import annotations

from aidiag.collectors.logs.kinds.kind import kind
from aidiag.collectors.signal import EventKind

KINDS: tuple[EventKind, ...] = (
    kind(
        "host",
        "command_output",
        "A command was run at a prompt; `lines` is 0 where it printed nothing",
        "command arguments lines output value host",
    ),
)
