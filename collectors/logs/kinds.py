"""What can happen in a log: the event kinds, named for what happened and not for who printed it.

Each event also carries `message` (id in the catalogue), `severity`, of messages of progress the `phase`, and, where it is
known, who printed it: `host`, `pid`, `local_rank` and `cuda_device` (as the process counts its devices).
"""

from __future__ import annotations

from collections.abc import Mapping

from aidiag.collectors.gpu.xids import XID
from aidiag.collectors.kmsg_kinds import GPU_OFF_BUS, HOST_OOM_KILL
from aidiag.collectors.signal import EventKind
from aidiag.collectors.subject import SubjectKind

ORIGIN_FIELDS = ("message", "severity", "phase", "host", "pid", "local_rank", "cuda_device")

OWN_FIELDS: dict[str, frozenset[str]] = {}
"""By kind: the fields that only the message itself can fill. A `pid` among them is that of whom the message is about."""

LAUNCHER_KINDS = frozenset({"worker_failed", "worker_signalled", "launcher_signalled", "worker_group_restarted"})
"""Kinds that a launcher tells of its workers: who printed the line is not whom it is about."""

_COMM = "comm comm_rank comm_ranks comm_id pci_bus_id"


def _kind(scope: SubjectKind, name: str, help: str, fields: str) -> EventKind:
    OWN_FIELDS[name] = frozenset(fields.split())
    return EventKind(name, scope, help, tuple(dict.fromkeys((*fields.split(), *ORIGIN_FIELDS))))


EVENTS: tuple[EventKind, ...] = (
    # NCCL: how far a rank got, and what it chose
    _kind("rank", "nccl_version", "NCCL said its version", "version cuda_version"),
    _kind("rank", "nccl_setting", "An NCCL variable is in force, or was not understood", "name value accepted"),
    _kind("rank", "nccl_bootstrap_interface", "NCCL chose its out-of-band interface", "interface address"),
    _kind("rank", "nccl_network_devices", "NCCL listed the devices of a network", "network devices interface address"),
    _kind("rank", "nccl_network_chosen", "NCCL chose its network", "network"),
    _kind("rank", "nccl_init_started", "A rank entered the start-up of a communicator", _COMM),
    _kind(
        "rank",
        "nccl_progress",
        "A step of the start-up of a communicator is done",
        f"step {_COMM} nodes local_ranks",
    ),
    _kind("rank", "nccl_channel", "A channel to a peer is set up", "channel comm_rank comm_peer transport"),
    _kind("rank", "nccl_init_completed", "A rank finished the start-up of a communicator", _COMM),
    _kind("rank", "nccl_comm_ended", "A communicator was destroyed or aborted", f"how edge {_COMM}"),
    # NCCL and friends: what went wrong
    _kind("rank", "nccl_warning", "NCCL warned of something that the catalogue does not know", "text file"),
    _kind("rank", "nccl_error", "An NCCL call failed", "result error version file"),
    _kind("rank", "nccl_no_interface", "NCCL found no network interface that its settings allow", "value"),
    _kind("rank", "nccl_version_mismatch", "Ranks run different NCCL versions", "rank_a version_a rank_b version_b"),
    _kind("rank", "duplicate_gpu", "Two ranks use one GPU", "rank_a rank_b pci_bus_id"),
    _kind(
        "rank",
        "connect_retried",
        "A connection was refused or timed out and is tried again",
        "layer peer port error errno attempt limit",
    ),
    _kind(
        "rank", "connect_failed", "A connection could not be made", "layer peer port error errno attempts timeout_ms"
    ),
    _kind("rank", "name_not_resolved", "A host name or interface has no address", "layer name error"),
    _kind(
        "rank", "peer_connection_closed", "The other end closed a connection", "layer peer port error peer_local_rank"
    ),
    _kind("rank", "peer_wait_timeout", "Waiting for a peer took too long", "layer operation timeout_ms"),
    _kind(
        "rank",
        "rdma_completion_error",
        "An RDMA work request failed",
        "peer status status_name opcode vendor_error device request detail",
    ),
    _kind("rank", "rdma_call_failed", "A verbs call failed", "call error errno detail"),
    _kind("rank", "rdma_device_event", "An RDMA device reported an event", "device port event fatal"),
    _kind("rank", "system_call_failed", "A call to the operating system failed", "layer call error"),
    _kind("rank", "shared_memory_failed", "Shared memory could not be had", "layer operation path bytes error errno"),
    _kind("rank", "cuda_error", "A CUDA call failed", "layer error code"),
    _kind("rank", "cuda_driver_unusable", "The CUDA driver is missing, too old or of another version", "error version"),
    # torch
    _kind(
        "rank",
        "collective_timeout",
        "A collective did not finish in its time",
        "rank group_rank group sequence operation shape numel_in numel_out timeout_ms elapsed_ms",
    ),
    _kind(
        "rank",
        "collective_state",
        "What a rank had enqueued and completed when a collective failed",
        "rank group_rank group sequence last_enqueued last_completed told_by",
    ),
    _kind(
        "rank",
        "collective_mismatch",
        "Ranks run different collectives",
        "rank_a collective_a rank_b collective_b detail",
    ),
    _kind(
        "rank", "collective_stalled", "Some ranks did not submit a tensor that others wait for", "seconds ranks tensor"
    ),
    _kind(
        "rank",
        "watchdog_stuck",
        "torch's watchdog thread does not get on: a CUDA or NCCL call or the GIL blocks",
        "seconds",
    ),
    _kind(
        "rank",
        "process_group_aborted",
        "A process takes itself down after a failed collective",
        "error rank group_rank group",
    ),
    _kind(
        "rank",
        "store_timeout",
        "Ranks did not come to the store in time",
        "joined expected seconds timeout_ms keys rank",
    ),
    _kind("rank", "store_waiting", "A rank waits at the store and says how many came", "joined expected keys rank"),
    _kind("rank", "port_in_use", "A port is taken", "layer peer port"),
    _kind(
        "rank",
        "worker_failed",
        "A launcher saw a worker fail",
        "rank local_rank exit_code signal pid host first error command",
    ),
    _kind(
        "host", "worker_signalled", "A launcher stops a worker because another failed or it was told to", "pid signal"
    ),
    _kind("host", "launcher_signalled", "A launcher was told to stop", "signal"),
    _kind("host", "worker_group_restarted", "A launcher starts its workers again", "state attempts_left attempts"),
    _kind("rank", "loader_worker_killed", "A loader worker process died", "pid pids signal exit_code"),
    _kind("rank", "loader_timeout", "A loader gave no batch in its time", "seconds"),
    _kind("rank", "open_files_exhausted", "A process has no file descriptor left", "layer error"),
    _kind(
        "rank",
        "cuda_out_of_memory",
        "GPU memory ran out",
        "gpu tried_bytes capacity_bytes free_bytes allocated_bytes reserved_bytes unallocated_bytes process_bytes allowed_bytes other_pid other_bytes layer error",
    ),
    _kind(
        "rank", "python_exception", "A Python exception was printed with its traceback", "type text file line function"
    ),
    _kind("rank", "loss_scale_overflow", "The loss scale overflowed", "scale new_scale final"),
    # the system
    _kind(
        "host",
        "process_killed",
        "A process was killed or crashed, as its shell or kernel tells",
        "pid process signal command",
    ),
    *(_kind(kind.scope, kind.name, kind.help, " ".join(kind.fields)) for kind in (HOST_OOM_KILL, XID, GPU_OFF_BUS)),
    _kind("host", "container_oom_killed", "A container was killed at its memory limit", "container exit_code"),
    _kind("host", "task_failed", "The scheduler saw tasks end badly", "node tasks state exit_code signal"),
    _kind(
        "host", "task_out_of_memory", "The scheduler saw tasks killed at their memory limit", "node tasks step kills"
    ),
    _kind("job", "job_cancelled", "The scheduler ended the job", "job node at reason"),
)

SCOPES: Mapping[str, SubjectKind] = {kind.name: kind.scope for kind in EVENTS}
