"""The ends of ranks and loader workers as events."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from aidiag.collectors.observation import Event, FieldValue
from aidiag.collectors.process.exits import Exit, exit_code
from aidiag.collectors.process.ranks import RankProcess

ASKED_TIMES = 3
"""How many readings an end without an exit code waits for `aidiag run` to tell it."""


@dataclass(slots=True)
class Ending:
    """The end of a rank's process. `exit_code` is -N for signal N, None while it is not known."""

    time: float
    exit_code: int | None = None
    asked: int = 0
    told: bool = False

    def event(self, rank: RankProcess, host_pid: int | None) -> Event:
        """The event of this end; without `exit_code` and `signal` where they were taken away unread."""
        fields = _fields(rank.pid, host_pid, self.exit_code)
        if rank.training is not None:
            fields["during_training"] = rank.training
        return Event("rank_exited", rank.subject, self.time, fields)


def worker_event(rank: RankProcess, worker: Exit, inner_pid: int | None) -> Event:
    """The event of the end of a loader worker. `inner_pid` is its number in the rank's PID namespace."""
    code = None if worker.status is None else exit_code(worker.status)
    return Event("loader_worker_exited", rank.subject, worker.time, _fields(inner_pid or worker.pid, worker.pid, code))


def _fields(pid: int, host_pid: int | None, code: int | None) -> dict[str, FieldValue]:
    fields: dict[str, FieldValue] = {"pid": pid}
    if host_pid is not None:
        fields["host_pid"] = host_pid
    if code is not None:
        fields["exit_code"] = code
        fields["signal"] = max(0, -code)
        if -code in signal.Signals._value2member_map_:
            fields["signal_name"] = signal.Signals(-code).name
    return fields
