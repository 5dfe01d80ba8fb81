"""What was set for the job, wherever that was said: in a job script, a command line, an env.txt."""

from __future__ import annotations

from aidiag.collectors.logs.kinds.kind import kind
from aidiag.collectors.signal import EventKind

KINDS: tuple[EventKind, ...] = (kind("rank", "environment_variable", "A variable was set for the job", "name value"),)
