"""Launchers and schedulers, the store, and how processes end."""

from __future__ import annotations

from aidiag.collectors.logs.kinds.kind import kind
from aidiag.collectors.signal import EventKind

KINDS: tuple[EventKind, ...] = (
    kind(
        "rank",
        "store_timeout",
        "Ranks did not come to the store in time",
        "joined expected seconds timeout_ms keys rank",
    ),
    kind("rank", "store_waiting", "A rank waits at the store and says how many came", "joined expected keys rank"),
    kind("rank", "port_in_use", "A port is taken", "layer peer port"),
    kind(
        "rank",
        "worker_failed",
        "A launcher saw a worker fail",
        "rank local_rank exit_code signal pid host first error command",
    ),
    kind(
        "host", "worker_signalled", "A launcher stops a worker because another failed or it was told to", "pid signal"
    ),
    kind("host", "launcher_signalled", "A launcher was told to stop", "signal"),
    kind("host", "worker_group_restarted", "A launcher starts its workers again", "state attempts_left attempts"),
    kind(
        "rank",
        "python_exception",
        "A Python exception was printed with its traceback",
        "type text file line function innermost functions about",
    ),
    kind(
        "host",
        "process_killed",
        "A process was killed or crashed, as its shell or kernel tells",
        "pid process signal command",
    ),
    kind("host", "task_failed", "The scheduler saw tasks end badly", "node tasks state exit_code signal"),
    kind("job", "job_cancelled", "The scheduler ended the job", "job node at reason"),
)
