"""Launchers and schedulers, the store, and how processes end."""

from __future__ import annotations

from aidiag.collectors.logs.kinds.kind import kind
from aidiag.collectors.signal import EventKind

DERIVED = frozenset({"rendezvous_conflict", "failed_first"})
"""Kinds that no line tells by itself (logs/roster.py)."""

KINDS: tuple[EventKind, ...] = (
    kind(
        "rank",
        "store_timeout",
        "Ranks did not come to the store in time",
        "joined expected seconds timeout_ms keys rank",
    ),
    kind("rank", "store_waiting", "A rank waits at the store and says how many came", "joined expected keys rank"),
    kind("rank", "port_in_use", "A port is taken", "layer peer port ended"),
    kind("host", "port_held", "A process listens on a port", "address port process pid"),
    kind("rank", "store_hosted", "A process hosts the store of a rendezvous", "pid endpoint"),
    kind("rank", "run_id_made", "A launcher had no rendezvous id and made one up", "run_id"),
    kind("rank", "rendezvous_entered", "A node joins a rendezvous", "node run_id node_rank nodes"),
    kind("rank", "rendezvous_waiting", "A rendezvous waits for further nodes", "joined expected"),
    kind("rank", "rendezvous_failed", "A rendezvous did not come about, or was closed", "error seconds"),
    kind("rank", "ranks_absent", "Ranks that others waited for are named", "ranks joined expected barrier"),
    kind(
        "rank",
        "rank_announced",
        "A process said which rank it is, and of how many",
        "rank world_size pid host endpoint",
    ),
    kind("job", "ranks_registered", "All processes of a group have come", "ranks"),
    kind("job", "launch_option", "A launcher was started with an option", "name value"),
    kind(
        "rank",
        "world_size_conflict",
        "The number or numbering of the ranks contradicts itself",
        "detail rank ranks expected found",
    ),
    kind("rank", "rendezvous_conflict", "Ranks were sent to different meeting places", "what values"),
    kind("host", "pod_state", "The state of a pod, as kubectl lists it", "pod host ready containers state restarts"),
    kind("host", "pod_container_ended", "How a container ended", "pod host reason exit_code killing"),
    kind("job", "resources_missing", "What was asked for cannot be had from the cluster", "detail"),
    kind("host", "host_not_started", "The launcher could not start its processes on a host", "host port error"),
    kind("rank", "process_crashed", "A process crashed in native code", "pid host signal code type"),
    kind("rank", "error_printed", "A rank printed an error that the catalogue does not know", "text"),
    kind("rank", "failed_first", "A rank failed by itself before any other was in trouble", "what text rank"),
    kind("rank", "peer_left", "The thread that serves the other processes of a host lost one", "peer_local_rank"),
    kind("rank", "signal_received", "A program was told to stop, or that its time is over", "signal host reason"),
    kind("host", "pod_evicted", "A pod was taken away from its node", "pod host reason"),
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
    kind("host", "task_failed", "The scheduler saw tasks end badly", "node tasks state exit_code signal after_cancel"),
    kind("job", "job_cancelled", "The scheduler ended the job", "job node at reason"),
)
