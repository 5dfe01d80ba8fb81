"""How fast training goes, what the host does meanwhile, and what a rank does while others wait."""

from __future__ import annotations

from aidiag.collectors.logs.kinds.kind import kind
from aidiag.collectors.signal import EventKind

KINDS: tuple[EventKind, ...] = (
    kind(
        "rank",
        "step_timed",
        "A program told where the time of a step goes",
        "what seconds ms percent input compute step",
    ),
    kind("rank", "input_bound_said", "A program or profiler says itself that input is the limit", "percent queue"),
    kind("rank", "profile_row", "A row of a profiler's table", "name seconds"),
    kind("rank", "sync_warned", "torch warned of an operation that makes the host wait for the GPU", "detail"),
    kind("rank", "sync_said", "Somebody counted how often the host waits for the GPU", "what calls samples per_step"),
    kind(
        "rank",
        "small_work_said",
        "A program says itself that its work is too small for the GPU",
        "what running waiting",
    ),
    kind("rank", "checkpoint_done", "A checkpoint has been written", "path"),
    kind(
        "rank",
        "steps_interval",
        "How long a number of steps took, or how many there are in a second",
        "step seconds rate each",
    ),
    kind("rank", "checkpoint_timed", "How long saving or loading a checkpoint took", "what seconds ms minutes"),
    kind("rank", "training_timed", "How long the steps of an epoch took", "seconds"),
    kind("rank", "epoch_progress", "How far an epoch has come", "done total"),
    kind("rank", "workers_apart", "What ranks exchanged does not fit together: one of them is elsewhere", ""),
    kind("rank", "load_waited", "A rank waited in vain for others that did not finish loading", ""),
    kind("rank", "rank_busy", "A rank does something that steps do not consist of", "what item percent rank"),
    kind("rank", "epoch_ended", "A rank came to the end of its data", "rank epoch batches end"),
    kind("rank", "batches_counted", "How many batches a rank has", "name batches rank"),
    kind("rank", "length_unknown", "The data is a stream of which no rank knows the length", "what"),
    kind("rank", "work_skipped", "A rank leaves out a part of the model that holds collectives", "what"),
    kind("rank", "batch_said", "The size of the batch that is in use", "name size"),
    kind("rank", "rank_step", "How long a step of one rank takes", "rank seconds"),
    kind(
        "rank",
        "rank_rates",
        "A report of all ranks: the rank with the lowest rate, that rate and the highest one",
        "rank low high",
    ),
    kind("rank", "slow_rank_said", "A program names a rank that is slower than the others", "rank ratio seconds"),
    kind("host", "gpu_utilization", "How busy a GPU is", "gpu percent"),
    kind(
        "host", "cpu_time", "Where the time of the CPUs goes", "user_percent system_percent iowait_percent idle_percent"
    ),
    kind("host", "disk_busy", "How busy a disk is", "device percent"),
    kind("host", "process_cpu", "How much CPU a process has", "pid percent core state command"),
    kind("host", "process_stopped", "A process is stopped or frozen, not dead", "pid how command"),
    kind("host", "cpus_allowed", "The CPUs that a process may use", "pid mask list cpus"),
    kind("rank", "cpus_bound", "A launcher bound a rank to one core", "core"),
    kind("host", "cpus_advised", "A loader wants more workers than the process has CPUs", "workers cpus"),
    kind("host", "cpus_present", "The CPUs that a host has", "cpus"),
    kind("host", "cpu_throttled", "A cgroup was held back at its quota", "periods throttled percent"),
    kind("host", "cpu_quota", "The CPUs that a cgroup may use", "quota period cpus step_cpus tasks"),
    kind("job", "speed_noted", "Somebody noted what made a job slow, or fast", "about"),
    kind("rank", "gil_wait", "A thread could not get Python's global interpreter lock", "ms seconds"),
)
