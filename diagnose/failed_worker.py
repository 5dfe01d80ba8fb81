"""Whose an error without a label was: that of the one worker which its launcher saw fail by itself.

Most programs print their errors without saying which rank they are. When a worker fails its launcher stops the others, and tells of
each how it ended. Where exactly one was not stopped by the launcher, what ended it was its own error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from aidiag.collectors.observation import Event
from aidiag.collectors.subject import rank
from aidiag.rules.finding import Culprit, Finding
from aidiag.rules.model import Rule
from aidiag.rules.places import who

KEPT = 4096
KILLED = frozenset({-9, 137, 9})
FOLLOWERS = frozenset(
    {"peer_connection_closed", "peer_wait_timeout", "nccl_error", "collective_timeout", "process_group_aborted"}
)
"""What ranks print that lost another one: not what ended the first of them."""
STOPPED = frozenset({-15, 143, -2, 130})
"""How workers end that were told to: SIGTERM, and SIGINT."""
_KILLS = frozenset({"oom_host_killed", "rank_killed"})
"""Causes by which a process is killed; of all others it ends by itself."""
_LOCAL_RANKS = 16
"""No host has more ranks, so that a higher one says that the job has several hosts."""


@dataclass(frozen=True, slots=True)
class _Ended:
    """How a worker ended, and whether its launcher says that it was the first."""

    code: int
    rank: int | None
    local_rank: int | None
    first: bool


class FailedWorkers:
    """What launchers tell of the ends of workers. `job` completes the subjects."""

    def __init__(self, job: str = "") -> None:
        self._job = job
        self._ended: set[_Ended] = set()
        self._hosts: set[str] = set()
        self._several_hosts = False
        self._held: list[Event] = []
        self._of_pid: dict[tuple[object, int], int] = {}
        self._of_local: dict[int, set[int]] = {}

    def follow(self, events: Iterable[Event]) -> Iterator[Event]:
        """The events. torchrun first tells the local rank of a worker that failed and then, in its table, the rank: the
        former come when that is known, at the latest in the end.
        """
        for event in events:
            self._see(event)
            if event.kind == "worker_failed" and _rank_of(event) is None and len(self._held) < KEPT:
                self._held.append(event)
            else:
                yield event
        for event in self._held:
            number = self._told(event)
            named = event
            if number is not None:
                whose = rank(number, host=str(event.fields.get("host") or ""), job=self._job)
                named = replace(event, subject=whose, fields={**event.fields, "rank": number})
            self._end(named)
            yield named

    def _see(self, event: Event) -> None:
        """Take note of an end, and of what shows that there is more than one host."""
        number, local = _rank_of(event), event.fields.get("local_rank")
        host = str(event.fields.get("host") or "")
        if host and host not in ("localhost", "127.0.0.1") and len(self._hosts) < 2:
            self._hosts.add(host)
        if _says_several(event):
            self._several_hosts = True
        if number is None:
            return
        if number >= _LOCAL_RANKS or (isinstance(local, int) and local != number):
            self._several_hosts = True
        if event.kind == "worker_failed" and isinstance(local, int) and len(self._of_pid) < KEPT:
            self._of_pid[event.fields.get("pid"), local] = number
            self._of_local.setdefault(local, set()).add(number)
        self._end(event)

    def _end(self, event: Event) -> None:
        code, local = _code_of(event), event.fields.get("local_rank")
        if event.kind == "worker_failed" and code is not None and code not in STOPPED and len(self._ended) < KEPT:
            own = local if isinstance(local, int) else None
            self._ended.add(_Ended(code, _rank_of(event), own, event.fields.get("first") is True))

    def _told(self, event: Event) -> int | None:
        """The rank of a worker of which only the local rank was told, None where that is not known."""
        local = event.fields.get("local_rank")
        if not isinstance(local, int):
            return None
        known = self._of_pid.get((event.fields.get("pid"), local))
        if known is not None:
            return known
        others = self._of_local.get(local, set())
        if len(others) == 1 and len(self._hosts) <= 1:
            return next(iter(others))
        # With one host the rank is that within it.
        return None if others or self._several_hosts or len(self._hosts) > 1 else local

    def attribute(self, findings: Sequence[Finding], rules: Mapping[str, Rule], language: str) -> list[Finding]:
        """The findings, with the rank of the failed worker where a rank is to blame and nothing said which one."""
        return [self._attributed(finding, rules, language) for finding in findings]

    def _attributed(self, finding: Finding, rules: Mapping[str, Rule], language: str) -> Finding:
        rule, blamed = rules.get(finding.rule), finding.culprit
        if rule is None or rule.culprit != "rank" or not FOLLOWERS.isdisjoint(rule.events):
            return finding
        if finding.cause == "external_signal" or (blamed and (blamed.ranks or blamed.targets)):
            return finding
        number = self._only(finding.cause in _KILLS)
        if number is None:
            return finding
        before, after = who([], language), who([rank(number, host="", job="")], language)
        hosts = blamed.hosts if blamed else ()
        return replace(
            finding,
            culprit=Culprit("rank", (number,), hosts),
            summary=finding.summary.replace(before, after),
            remedy=tuple(replace(step, do=step.do.replace(before, after)) for step in finding.remedy),
        )

    def _only(self, killed: bool) -> int | None:
        """The rank of the only worker that was killed, or that ended by itself; None where there are several or none."""
        ended = [one for one in self._ended if (one.code in KILLED) == killed]
        ended = [one for one in ended if one.first] or ended
        named = {one.rank for one in ended}
        return named.pop() if len(named) == 1 else None


def _says_several(event: Event) -> bool:
    """Whether an event says that the job has several hosts, or that this is not its first one."""
    nodes, ranks = event.fields.get("nodes"), event.fields.get("comm_ranks")
    if (isinstance(nodes, int) and nodes > 1) or (isinstance(ranks, int) and ranks > _LOCAL_RANKS):
        return True
    name, value = str(event.fields.get("name", "")).lower(), str(event.fields.get("value", ""))
    counts = name in ("nnodes", "slurm_nnodes", "slurm_job_num_nodes", "group_world_size") and value.isdigit()
    place = name in ("node_rank", "group_rank", "slurm_nodeid") and value.isdigit()
    return (counts and int(value) > 1) or (place and int(value) > 0)


def _rank_of(event: Event) -> int | None:
    if event.subject is not None and event.subject.rank is not None:
        return event.subject.rank
    number = event.fields.get("rank")
    return number if isinstance(number, int) else None


def _code_of(event: Event) -> int | None:
    """The exit code of a worker, or less than zero the signal that ended it."""
    code, signal = event.fields.get("exit_code"), str(event.fields.get("signal", ""))
    if isinstance(code, int):
        return code
    return -int(signal) if signal.isdigit() else {"SIGKILL": -9, "SIGTERM": -15}.get(signal)
