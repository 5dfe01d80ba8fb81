"""One incarnation of a rank, followed from the first sight of its process to its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aidiag.collectors.errors import NotPermittedError
from aidiag.collectors.node import Node
from aidiag.collectors.observation import Event
from aidiag.collectors.process.accounts import Account, Usage
from aidiag.collectors.process.endings import ASKED_TIMES, Ending, worker_event
from aidiag.collectors.process.exits import Exit, ExitWatcher, exit_code
from aidiag.collectors.process.files import ProcessStat
from aidiag.collectors.process.ranks import LocalPids, RankProcess
from aidiag.collectors.process.visible import read_children, read_stat
from aidiag.collectors.run_files import RunFile


class FollowedRank:
    """The process of a rank and its children.

    `rank` is what the record says of it, renewed at each reading. `pid` is its number here, None while it is not
    found among the processes that can be seen. `stat` is the last reading, None where there was nothing to read.
    """

    def __init__(self, rank: RankProcess, node: Node, pids: LocalPids, watcher: ExitWatcher | None) -> None:
        self.rank = rank
        self.pid = rank.pid if pids.is_ours(rank.pid_namespace) else None
        self.stat: ProcessStat | None = None
        self.ending: Ending | None = None
        self._account = Account()
        self._seen_alive = False
        self._watched = False
        self._workers: set[tuple[int, int]] = set()
        self._inner_pids: dict[int, int | None] = {}
        self._node, self._pids, self._watcher = node, pids, watcher

    def look(self, now: float) -> Usage | None:
        """Read the process and its children, and watch those that are new. None where it does not run any more.

        Raises NotPermittedError where it cannot be seen from here.
        """
        self.stat = None
        if self.pid is None:
            raise NotPermittedError(
                f"process {self.rank.pid} of PID namespace {self.rank.pid_namespace} cannot be seen from here",
                "run aidiag in the host's PID namespace, or let the containers of the pod share theirs",
            )
        stat = read_stat(self._node, self.pid)
        if stat is None or stat.start_ticks != self.rank.start_ticks:  # gone, or its number has a new owner
            if not self._watched:
                self._end(now, None)
            return None
        self.stat = stat
        if stat.ended:
            if not self._watched:
                self._end(now, stat.exit_status or None)  # 0 may stand for a status that is hidden from us
            return None
        self._seen_alive = True
        self._watched = self._watched or self._watch(stat)
        ours = self._pids.is_ours(self.rank.pid_namespace)
        children = read_children(self._node, self.pid, self.rank.worker_pids if ours else ())
        for child in children:
            process = (child.pid, child.start_ticks)
            if process not in self._workers and not child.ended and self._is_worker(child.pid) and self._watch(child):
                self._workers.add(process)
        return self._account.add(stat, children, self._is_worker)

    def note(self, exits: Mapping[tuple[int, int], Exit]) -> list[Event]:
        """Take the ends that concern this rank. Gives the events of loader workers that died before it."""
        own = exits.get((self.pid, self.rank.start_ticks)) if self.pid is not None else None
        if own and self._watched:
            self._watched = False
            self._end(own.time, own.status)
        workers = sorted((exits[process] for process in self._workers if process in exits), key=lambda end: end.time)
        self._workers.difference_update((worker.pid, worker.start_ticks) for worker in workers)
        ended = float("inf") if self.ending is None else self.ending.time
        return [
            worker_event(self.rank, worker, self._inner_pids.get(worker.pid))
            for worker in workers
            if worker.time < ended
        ]

    def last_word(self, runs: Iterable[RunFile], since_unix: float) -> Event | None:
        """The event of the rank's end, once: when its exit code is known, or nobody will tell it.

        An end before the first look is told only where the rank attached after `since_unix`: older records are left
        over from jobs of the past.
        """
        ending = self.ending
        if ending is None or ending.told:
            return None
        run = next((run for run in runs if self._is_child_of(run)), None)
        if ending.exit_code is None and run:
            ending.exit_code, ending.asked = run.exit_code, ending.asked + 1
            if run.ended is None and not run.lost and ending.asked < ASKED_TIMES:
                return None  # `aidiag run` has not written it yet
        ending.told = True
        ours = self._seen_alive or (self.rank.attached_unix or 0.0) >= since_unix
        return ending.event(self.rank, self.pid) if ours else None

    def forget(self) -> None:
        """Watch nothing of it any more."""
        if self._watcher:
            for pid in [self.pid or 0, *(pid for pid, _ in self._workers)]:
                self._watcher.forget(pid)

    def _is_child_of(self, run: RunFile) -> bool:
        """Whether this process is the command that an `aidiag run` started."""
        child, rank = run.child, self.rank
        if child is None or (child.pid, child.start_ticks) != (rank.pid, rank.start_ticks):
            return False
        return rank.pid_namespace in (0, child.namespace)

    def _is_worker(self, pid: int) -> bool:
        """Whether a child is one of the loader workers that the record names."""
        if self._pids.is_ours(self.rank.pid_namespace):
            return pid in self.rank.worker_pids
        if pid not in self._inner_pids:
            self._inner_pids[pid] = self._pids.inner(pid)
        return self._inner_pids[pid] in self.rank.worker_pids

    def _watch(self, stat: ProcessStat) -> bool:
        try:
            return self._watcher is not None and self._watcher.watch(stat)
        except OSError:  # no pidfds in this kernel, or forbidden: the next look finds it gone
            return False

    def _end(self, time: float, status: int | None) -> None:
        if self.ending is None:
            self.ending = Ending(time, None if status is None else exit_code(status))
