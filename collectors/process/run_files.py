"""Exit statuses of ranks that `aidiag run` started itself: its `run-<pid>.json` files in the host's job folder."""

from __future__ import annotations

import json
import os
import signal
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

READ_LIMIT_BYTES = 1 << 16
FILES_LIMIT = 256


@dataclass(frozen=True, slots=True)
class RunChild:
    """The command that an `aidiag run` started: `exit_code` is None while it runs, -N for signal N."""

    pid: int
    exit_code: int | None


def run_children(host_folder: Path | None) -> dict[int, RunChild]:
    """The commands started by `aidiag run` on this host for this job, by process id. Broken files are left out."""
    children: dict[int, RunChild] = {}
    if host_folder is None:
        return children
    for path in sorted(host_folder.glob("run-*.json"))[:FILES_LIMIT]:
        child = _child(path)
        if child:
            children[child.pid] = child
    return children


def _child(path: Path) -> RunChild | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            facts = json.loads(os.read(descriptor, READ_LIMIT_BYTES))
        finally:
            os.close(descriptor)
    except (OSError, ValueError, RecursionError):
        return None
    pid = facts.get("child_pid") if isinstance(facts, dict) else None
    if not isinstance(pid, int) or pid <= 0:
        return None
    number = _signal(facts.get("signal"))
    status = facts.get("exit_status")
    return RunChild(pid, -number if number else status if isinstance(status, int) else None)


def _signal(value: Any) -> int:
    """A signal by number or name, 0 for none."""
    if isinstance(value, str):
        return int(signal.Signals[value]) if value in signal.Signals.__members__ else 0
    return value if isinstance(value, int) and 0 < value < 65 else 0
