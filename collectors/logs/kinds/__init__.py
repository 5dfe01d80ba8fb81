"""What can happen in a log: the event kinds, named for what happened and not for who printed it.

Each event also carries `message` (id in the catalogue), `severity`, of messages of progress the `phase`, and, where it is
known, who printed it: `host`, `pid`, `local_rank` and `cuda_device` (as the process counts its devices).
"""

from __future__ import annotations

from collections.abc import Mapping

from aidiag.collectors.logs.kinds import (
    collectives,
    command,
    environment,
    fabric,
    hardware,
    kernel,
    launch,
    memory,
    network,
    progress,
    scheduler,
    speed,
)
from aidiag.collectors.logs.kinds.kind import ORIGIN_FIELDS, OWN_FIELDS
from aidiag.collectors.signal import EventKind
from aidiag.collectors.subject import SubjectKind

__all__ = ["EVENTS", "LAUNCHER_KINDS", "ORIGIN_FIELDS", "OWN_FIELDS", "SCOPES"]

LAUNCHER_KINDS = frozenset({"worker_failed", "worker_signalled", "launcher_signalled", "worker_group_restarted"})
"""Kinds that a launcher tells of its workers: who printed the line is not whom it is about."""

EVENTS: tuple[EventKind, ...] = (
    *progress.KINDS,
    *network.KINDS,
    *collectives.KINDS,
    *launch.KINDS,
    *memory.KINDS,
    *fabric.KINDS,
    *hardware.KINDS,
    *kernel.KINDS,
    *environment.KINDS,
    *command.KINDS,
    *speed.KINDS,
    *scheduler.KINDS,
)

SCOPES: Mapping[str, SubjectKind] = {kind.name: kind.scope for kind in EVENTS}
