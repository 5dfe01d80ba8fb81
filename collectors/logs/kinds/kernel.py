"""What the kernel tells, in its own log as in a copy of it."""

from __future__ import annotations

from aidiag.collectors.gpu.xids import XID
from aidiag.collectors.kmsg_kinds import GPU_OFF_BUS, HOST_OOM_KILL, SXID
from aidiag.collectors.logs.kinds.kind import kind
from aidiag.collectors.signal import EventKind

KINDS: tuple[EventKind, ...] = tuple(
    kind(one.scope, one.name, one.help, " ".join(one.fields)) for one in (HOST_OOM_KILL, XID, GPU_OFF_BUS, SXID)
)
