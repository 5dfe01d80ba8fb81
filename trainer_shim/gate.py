"""May this process attach? A trainer has many helpers that run its code: they stay out of its record, and have none.

Loader workers know what they are. All other children of a trainer (spawned and forked workers, compile workers, tools)
are told by their ancestors: one that has attached with the same job, rank, world size and launcher keeps them out.
A launcher never meets an event that attaches, so it needs no rule.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import Optional

from . import folder, owner

ANCESTORS_LIMIT = 32
_SAME = ("job_id", "rank", "world_size", "launcher")


def kept_out(identity: Mapping[str, object], here: owner.Owner, environ: Mapping[str, str]) -> Optional[str]:
    """Why a process must not attach, None when it may."""
    worker = sys.modules.get("torch.utils.data._utils.worker")
    if getattr(worker, "_worker_info", None) is not None:
        return "a loader worker"
    for path in _ancestors_records(here, environ):
        from .model import RecordError
        from .reader import read_record

        try:
            record = read_record(path, owner_uid=os.geteuid())
        except RecordError:
            continue
        if record.state.stage != "detached" and all(getattr(record.identity, name) == identity[name] for name in _SAME):
            return f"a child of process {record.identity.pid}, which has attached with the same rank"
    return None


def _ancestors_records(here: owner.Owner, environ: Mapping[str, str]) -> Iterator[str]:
    """The records of this process's ancestors, nearest folder first."""
    ancestors = set(_ancestors(here))
    for path in folder.candidates(environ, os.geteuid()):
        try:
            names = os.listdir(path)
        except OSError:
            continue
        for name in names:
            parsed = owner.parse_file_name(name)
            if parsed is not None and parsed.kind == "record" and parsed.owner in ancestors:
                yield os.path.join(path, name)


def _ancestors(here: owner.Owner) -> Iterator[owner.Owner]:
    pid = os.getppid()
    for _ in range(ANCESTORS_LIMIT):
        ticks = owner.read_start_ticks(pid)
        if pid <= 0 or ticks is None:
            return
        yield here._replace(pid=pid, start_ticks=ticks)
        pid = owner.read_parent(pid) or 0
