"""The processes of the ranks: life and death, CPU, memory, cgroup limits, loader workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from aidiag.collectors.collector import Collector, Context
from aidiag.collectors.errors import NotPermittedError
from aidiag.collectors.observation import Absent, Event, Observation, Sample
from aidiag.collectors.process.exits import ExitWatcher
from aidiag.collectors.process.followed import FollowedRank
from aidiag.collectors.process.limits import RankLimits
from aidiag.collectors.process.oom_kills import OomKills
from aidiag.collectors.process.ranks import LocalPids, RankProcess, RankSource, known_ranks
from aidiag.collectors.run_files import read_runs
from aidiag.collectors.signal import EventKind, Signal

SIGNALS: tuple[Signal, ...] = (
    Signal("rank_exit_code", "gauge", "code", "rank", "Exit code after the end, -N for signal N", max_age_seconds=1e9),
    Signal("rank_process_state", "text", "", "rank", "running, sleeping, disk, stopped, zombie or gone"),
    Signal("rank_resident_memory_bytes", "gauge", "bytes", "rank", "Resident memory of the rank and its workers"),
    Signal("rank_cpu_seconds_total", "counter", "seconds", "rank", "CPU time of the rank and its workers"),
    Signal("rank_threads", "gauge", "count", "rank", "Threads of the rank's process"),
    Signal("rank_open_files", "gauge", "count", "rank", "Open file descriptors of the rank's process"),
    Signal("rank_open_files_limit", "gauge", "count", "rank", "Soft limit of open file descriptors"),
    Signal("rank_cpus_allowed", "gauge", "count", "rank", "CPUs that the rank may use, by affinity and cgroup quota"),
    Signal("rank_loader_workers_alive", "gauge", "count", "rank", "Loader worker processes alive"),
    Signal("rank_loader_workers_cpu_seconds_total", "counter", "seconds", "rank", "CPU time of the loader workers"),
    Signal("rank_memory_limit_bytes", "gauge", "bytes", "rank", "Memory limit of the rank's cgroup"),
    Signal(
        "rank_memory_used_bytes",
        "gauge",
        "bytes",
        "rank",
        "Memory that the rank's cgroup uses, without page cache that can be dropped",
    ),
    Signal("rank_oom_kills_total", "counter", "count", "rank", "Kills by the kernel's OOM killer in the rank's cgroup"),
    Signal(
        "rank_cpu_throttled_seconds_total",
        "counter",
        "seconds",
        "rank",
        "Time that the CPU quota stopped the rank's cgroup",
    ),
)

EVENTS: tuple[EventKind, ...] = (
    EventKind(
        "rank_exited",
        "rank",
        "The process of a rank ended. exit_code is -N for signal N; it is missing where it was taken away unread",
        ("exit_code", "signal", "signal_name", "pid", "host_pid", "during_training", "oom_killed"),
    ),
    EventKind(
        "loader_worker_exited",
        "rank",
        "A loader worker process ended while its rank lived",
        ("exit_code", "signal", "signal_name", "pid", "host_pid", "oom_killed"),
    ),
)

LOOK_AROUND_SECONDS = (2.0, 60.0)
"""How long to wait before all processes are searched again for ranks that were not found: at first, and at most."""


class ProcessCollector(Collector):
    """The processes of the ranks: life and death, CPU, memory, cgroup limits, loader workers.

    `ranks` tells which processes are ranks; by default the shim's records do.
    """

    name: ClassVar[str] = "process"
    interval_seconds: ClassVar[float] = 2.0
    signals: ClassVar[tuple[Signal, ...]] = SIGNALS
    events: ClassVar[tuple[EventKind, ...]] = EVENTS

    def __init__(self, context: Context, ranks: RankSource | None = None) -> None:
        self._context, self._node, self._clock = context, context.node, context.clock
        self._ranks = ranks or known_ranks(context)
        self._since_unix = context.clock.unix()
        self._watcher = ExitWatcher(context.clock.monotonic) if context.node.live else None
        self._pids = LocalPids(context.node)
        self._limits = RankLimits(context.node)
        self._oom_kills = OomKills(context.node)
        self._followed: dict[tuple[str, int, int, int], FollowedRank] = {}
        self._next_search, self._search_pause = 0.0, LOOK_AROUND_SECONDS[0]

    def collect(self) -> Iterable[Observation]:
        """Read the processes of all ranks once."""
        return [self._oom_kills.judge(one) if isinstance(one, Event) else one for one in self._collect()]

    def close(self) -> None:
        """Watch no process any more."""
        if self._watcher:
            self._watcher.close()

    def _collect(self) -> Iterator[Observation]:
        now = self._clock.monotonic()
        self._follow({rank.key: rank for rank in self._ranks()})
        self._search(now)
        exits = {(end.pid, end.start_ticks): end for end in self._watcher.take()} if self._watcher else {}
        newest = _newest(self._followed.values())
        self._limits.begin()
        for followed in self._followed.values():
            yield from followed.note(exits)
            if followed in newest:
                yield from self._observe(followed, now)
        yield from self._endings()

    def _follow(self, ranks: Mapping[tuple[str, int, int, int], RankProcess]) -> None:
        for key, rank in ranks.items():
            if key in self._followed:
                self._followed[key].rank = rank
            else:
                self._followed[key] = FollowedRank(rank, self._node, self._pids, self._watcher)
                self._next_search, self._search_pause = 0.0, LOOK_AROUND_SECONDS[0]
        for key in self._followed.keys() - ranks.keys():
            self._followed.pop(key).forget()

    def _search(self, now: float) -> None:
        """Find the processes of ranks in other PID namespaces, less and less often."""
        lost = [followed for followed in self._followed.values() if followed.pid is None]
        if not lost or now < self._next_search:
            return
        found = self._pids.find({(followed.rank.pid_namespace, followed.rank.pid) for followed in lost})
        for followed in lost:
            followed.pid = found.get((followed.rank.pid_namespace, followed.rank.pid))
        self._next_search = now + self._search_pause
        self._search_pause = min(2 * self._search_pause, LOOK_AROUND_SECONDS[1])

    def _observe(self, followed: FollowedRank, now: float) -> Iterator[Observation]:
        subject = followed.rank.subject
        try:
            usage = followed.look(now)
        except NotPermittedError as error:
            yield from (Absent(signal.name, subject, error.reason, error.remedy) for signal in SIGNALS)
            return
        stat = followed.stat
        yield Sample("rank_process_state", subject, stat.state if stat else "gone", now)
        if not usage or not stat:
            return
        yield Sample("rank_threads", subject, float(stat.threads), now)
        yield Sample("rank_cpu_seconds_total", subject, usage.cpu_seconds, now)
        yield Sample("rank_resident_memory_bytes", subject, float(usage.resident_bytes), now)
        yield Sample("rank_loader_workers_alive", subject, float(usage.workers_alive), now)
        yield Sample("rank_loader_workers_cpu_seconds_total", subject, usage.workers_cpu_seconds, now)
        yield from self._limits.observe(subject, stat.pid, stat.start_ticks, now)

    def _endings(self) -> Iterator[Observation]:
        ended = [followed for followed in self._followed.values() if followed.ending]
        untold = any(followed.ending and not followed.ending.told for followed in ended)
        folder = self._context.host_folder
        runs = read_runs(folder) if untold and folder else []
        for followed in ended:
            event = followed.last_word(runs, self._since_unix)
            if event:
                yield event
        for followed in _newest(self._followed.values()):
            if not followed.ending or not followed.ending.told:
                continue
            subject, code = followed.rank.subject, followed.ending.exit_code
            if code is not None:
                yield Sample("rank_exit_code", subject, float(code), followed.ending.time)
            else:
                reason = "the process ended and its parent took the exit status before it could be read"
                yield Absent("rank_exit_code", subject, reason, "start the ranks with `aidiag run`, or use Linux 6.15")


def _newest(followed: Iterable[FollowedRank]) -> list[FollowedRank]:
    """The last incarnation of each rank, the one whose process started last."""
    newest: dict[tuple[str, int], FollowedRank] = {}
    for one in followed:
        name = (one.rank.job, one.rank.rank)
        if name not in newest or newest[name].rank.started <= one.rank.started:
            newest[name] = one
    return list(newest.values())
