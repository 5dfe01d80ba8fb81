"""Whose an error without a label was: that of the one worker which its launcher saw fail by itself.

Most programs print their errors without saying which rank they are. When a worker fails its launcher stops the others, and tells of
each how it ended. Where exactly one was not stopped by the launcher, what ended it was its own error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    """What launchers tell of the ends of workers."""

    def __init__(self) -> None:
        self._ended: set[_Ended] = set()
        self._hosts: set[str] = set()
        self._several_hosts = False

    def see(self, event: Event) -> None:
        """Take note of an end, and of what shows that there is more than one host."""
        number, local = _rank_of(event), event.fields.get("local_rank")
        host = str(event.fields.get("host") or "")
        if host and host not in ("localhost", "127.0.0.1") and len(self._hosts) < 2:
            self._hosts.add(host)
        if number is not None and (number >= _LOCAL_RANKS or (isinstance(local, int) and local != number)):
            self._several_hosts = True
        if event.kind == "worker_failed" and len(self._ended) < KEPT:
            code = _code_of(event)
            if code is not None and code not in STOPPED:
                own = local if isinstance(local, int) else None
                self._ended.add(_Ended(code, number, own, event.fields.get("first") is True))

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
        named = {one.rank for one in ended if one.rank is not None}
        if named:
            local = {one.local_rank for one in ended if one.rank is not None}
            unnamed = {one.local_rank for one in ended if one.rank is None} - local
            return named.pop() if len(named) == 1 and not unnamed else None
        places = {one.local_rank for one in ended}
        if len(places) != 1 or self._several_hosts or len(self._hosts) > 1:
            return None
        return places.pop()  # with one host the rank is that within it


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
