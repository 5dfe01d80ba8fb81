"""Who holds memory of a GPU: the job's own processes, or others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aidiag.collectors.collector import Context
from aidiag.collectors.errors import NotPermittedError
from aidiag.collectors.gpu.answers import Answers, NoAnswerError
from aidiag.collectors.observation import Absent, Observation, Sample, labels
from aidiag.collectors.process.ranks import LocalPids, RankSource, sees_all_processes
from aidiag.collectors.process.visible import read_stat
from aidiag.collectors.run_files import read_runs
from aidiag.collectors.subject import Subject

PROCESSES = "nvmlDeviceGetComputeRunningProcesses"
ANCESTORS_LIMIT = 16
OWN_NAMESPACE = "this container has its own PID namespace, so the list of processes on the GPU proves nothing"
SHARE_REMEDY = "run aidiag in the host's PID namespace (hostPID: true, docker --pid=host)"


class Holders:
    """Tells the processes of the job from others. The job's are the ranks, the commands that `aidiag run` started, and
    all that descend from them. Call `begin` before each round over the GPUs.
    """

    def __init__(self, context: Context, ranks: RankSource) -> None:
        self._context, self._node, self._ranks = context, context.node, ranks
        self._pids = LocalPids(context.node)
        self._elsewhere: dict[tuple[int, int], int] = {}
        self._rounds = 0
        self._roots: frozenset[int] = frozenset()
        self._owned: dict[int, bool | None] = {}

    def begin(self) -> None:
        """Look up which processes are the job's."""
        self._owned = {}
        self._roots = frozenset(self._job_pids())

    def observe(self, answers: Answers, subject: Subject, now: float) -> Iterator[Observation]:
        """How many processes of whom are on a GPU, and how much of its memory others hold."""
        try:
            listed = answers.get(PROCESSES)
        except NoAnswerError as error:
            yield self._absent(subject, error.reason, error.remedy, expected=error.expected)
            return
        processes = [process for process in listed if isinstance(process, dict)] if isinstance(listed, list) else []
        sees_all = sees_all_processes(self._node)
        if sees_all is False or (sees_all is None and not processes):
            yield self._absent(subject, OWN_NAMESPACE, SHARE_REMEDY)
            yield from self._bound(answers, subject, now)
            return
        if not self._roots and self._context.job:
            yield self._absent(subject, f"no process of job {self._context.job} is known here yet")
            return
        yield from self._split(processes, subject, now)

    @staticmethod
    def _bound(answers: Answers, subject: Subject, now: float) -> Iterator[Observation]:
        """What can be said without seeing the processes: others hold no more than is in use."""
        try:
            used = answers.number("nvmlDeviceGetMemoryInfo", "used")
        except NoAnswerError as error:
            yield Absent(
                "gpu_memory_foreign_at_most_bytes", subject, error.reason, error.remedy, expected=error.expected
            )
        else:
            yield Sample("gpu_memory_foreign_at_most_bytes", subject, used, now)

    def _split(self, processes: Sequence[Mapping[str, Any]], subject: Subject, now: float) -> Iterator[Observation]:
        counts = {"job": 0, "foreign": 0}
        foreign = 0
        for process in processes:
            pid, held = process.get("pid"), process.get("usedGpuMemory")
            if not isinstance(pid, int):
                continue
            owned = self._owns(pid)
            if owned is None:
                yield self._absent(subject, f"process {pid} holds memory and cannot be looked at")
                return
            counts["job" if owned else "foreign"] += 1
            if not owned and not isinstance(held, int):
                yield self._absent(subject, f"the driver does not tell how much memory process {pid} holds")
                return
            foreign += 0 if owned or not isinstance(held, int) else held
        yield Sample("gpu_memory_foreign_bytes", subject, float(foreign), now)
        for owner, count in counts.items():
            yield Sample("gpu_processes", subject, float(count), now, labels(owner=owner))

    def _owns(self, pid: int) -> bool | None:
        """Whether a process is one of the job's or descends from one. None where its ancestors are hidden from us."""
        if pid not in self._owned:
            self._owned[pid] = self._descends(pid)
        return self._owned[pid]

    def _descends(self, pid: int) -> bool | None:
        for _ in range(ANCESTORS_LIMIT):
            if pid in self._roots:
                return True
            if pid <= 1:
                return False
            try:
                stat = read_stat(self._node, pid)
            except NotPermittedError:
                return None
            if stat is None:  # it has just ended, or the recording does not hold it
                return False
            pid = stat.parent_pid
        return False

    def _job_pids(self) -> Iterator[int]:
        """Our numbers of the ranks and commands that live. Those in other PID namespaces are searched less and less."""
        self._rounds += 1
        started = dict(self._started())
        elsewhere = {key for key in started if not self._pids.is_ours(key[0])}
        missing = {key for key in elsewhere if key not in self._elsewhere}
        if missing and self._rounds & (self._rounds - 1) == 0:
            self._elsewhere.update(self._pids.find(missing))
        for key, start_ticks in started.items():
            pid = self._elsewhere.get(key) if key in elsewhere else key[1]
            try:
                stat = read_stat(self._node, pid) if pid is not None else None
            except NotPermittedError:
                continue
            if stat and stat.start_ticks == start_ticks:
                yield stat.pid

    def _started(self) -> Iterator[tuple[tuple[int, int], int]]:
        """The ranks and the commands of `aidiag run`: namespace, number in it, and when the process started."""
        folder = self._context.host_folder
        for run in read_runs(folder) if folder else ():
            if run.child:
                yield (run.child.namespace, run.child.pid), run.child.start_ticks
        for rank in self._ranks():
            yield (rank.pid_namespace, rank.pid), rank.start_ticks

    @staticmethod
    def _absent(subject: Subject, reason: str, remedy: str = "", *, expected: bool = True) -> Absent:
        return Absent("gpu_memory_foreign_bytes", subject, reason, remedy, expected=expected)
