"""`aidiag check`: collectors once, rules over them, a verdict for each target."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timezone
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from aidiag.collectors import COLLECTORS, registry
from aidiag.collectors.collector import Clock, Collector, Context, SystemClock
from aidiag.collectors.earlier import earlier_counters
from aidiag.collectors.errors import CollectorError
from aidiag.collectors.live import LiveNode
from aidiag.collectors.node import Node
from aidiag.collectors.recorded import RecordedNode
from aidiag.collectors.runner import observations, run_once
from aidiag.diagnose.config import Config
from aidiag.diagnose.report.model import Check, JobFacts, Report, Unknown
from aidiag.diagnose.rulebook import load_rulebook, load_waivers_of
from aidiag.rules.checks import Verdict, verdicts
from aidiag.rules.model import RuleBook
from aidiag.rules.window import Window

if TYPE_CHECKING:
    from aidiag.rules.waivers import Waiver

DEADLINE_SECONDS = 10.0

GROUPS = {
    "gpu": ("gpu-", "ecc-", "xid", "nvlink", "row-", "pcie-", "nvml-", "driver-", "fabric", "mig-"),
    "ib": ("ib-", "roce-", "rdma-", "gdr-", "mtu-ib", "efa-"),
    "net": ("mtu-", "nic-", "bootstrap-", "dns-", "hostname-", "port-", "net-"),
    "host": ("dev-shm", "memlock", "nofile", "cpu-", "mem-", "disk-", "swap", "fs-", "clock-", "numa-", "oom-"),
    "job": ("launcher-", "cuda-visible", "nccl-", "torch-", "slurm-", "k8s-", "container-", "bad-cuda"),
}
"""Groups for --only and --skip: how the ids of their checks begin."""


class CheckError(Exception):
    """The check cannot be made as asked; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which checks are wanted: ids and groups to take (all where empty) and to leave out."""

    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()

    def wants(self, check: str) -> bool:
        """Whether a check is to be made."""
        if any(_matches(check, word) for word in self.skip):
            return False
        return not self.only or any(_matches(check, word) for word in self.only)

    def validate(self, known: Collection[str]) -> None:
        """Raise CheckError for a word that is neither a group nor a known check."""
        for word in (*self.only, *self.skip):
            if word not in GROUPS and word not in known:
                near = get_close_matches(word, [*GROUPS, *known], 1)
                hint = f"did you mean {near[0]}?" if near else f"groups are {', '.join(GROUPS)}"
                raise CheckError(f"{word}: no such check or group; {hint}")


def _matches(check: str, word: str) -> bool:
    return check == word or check.startswith(GROUPS.get(word, ("\0",)))


def check_node(
    config: Config,
    *,
    root: Path | None = None,
    selection: Selection | None = None,
    deadline_seconds: float = DEADLINE_SECONDS,
    language: str = "en",
    clock: Clock | None = None,
) -> Report:
    """Judge this host, or the one recorded below `root`. Raises CheckError."""
    selection = selection or Selection()
    clock = clock or SystemClock()
    known = registry()
    book = load_rulebook(known, config)
    selection.validate({rule.check for rule in book.rules if rule.check})
    node = _node(root)
    # The trainer, its processes and logs belong to running jobs; a check is about the host.
    names = [name for name in COLLECTORS if name not in ("trainer", "process", "logs", "peers", *config.disable)]
    context = Context(node, clock)
    collectors: list[Collector] = [COLLECTORS[name](context) for name in names]
    started = time.monotonic()
    outcomes = run_once(collectors, clock=clock, deadline_seconds=deadline_seconds)
    window = Window(known)
    window.add_all(earlier_counters((COLLECTORS[name] for name in names), context))
    window.add_all(observations(outcomes, collectors, node.name))
    wanted = [rule for rule in book.rules if rule.check and selection.wants(rule.check)]
    found = verdicts(wanted, window, clock.monotonic(), language)
    late = [name for name, outcome in outcomes.items() if outcome.state == "hung"]
    gaps = [Unknown(o.collector, o.reason, o.remedy) for o in outcomes.values() if o.state not in ("ok", "unavailable")]
    if time.monotonic() - started >= deadline_seconds and late:
        gaps.append(
            Unknown("check", f"the deadline of {deadline_seconds:g} s ended it before {', '.join(late)} answered")
        )
    return Report(
        job=JobFacts(hosts=(node.name,)),
        made_at=clock.unix(),
        unknown=(*gaps, *_rule_gaps(book)),
        checks=tuple(_waive(found, config, clock)),
    )


def _node(root: Path | None) -> Node:
    if root is None:
        return LiveNode()
    if not root.is_dir():
        raise CheckError(f"{root}: there is no such folder; --root takes the folder of a recorded node")
    try:
        return RecordedNode(root)
    except (CollectorError, OSError, ValueError) as problem:
        raise CheckError(f"{root}: not a recorded node: {problem}") from None


def _rule_gaps(book: RuleBook) -> Iterable[Unknown]:
    return (Unknown("rules", str(error), "mend the file; the other rules are in force") for error in book.errors)


def _waive(found: Sequence[Verdict], config: Config, clock: Clock) -> Iterable[Check]:
    waivers, errors = load_waivers_of(config)
    for error in errors:
        print(f"aidiag: {error}", file=sys.stderr)
    if not waivers:
        return map(_check, found)
    return _waived(found, waivers, datetime.fromtimestamp(clock.unix(), timezone.utc).date())


def _check(verdict: Verdict) -> Check:
    return Check(
        verdict.id, verdict.status, verdict.target, verdict.observed, verdict.expected, verdict.reason, verdict.remedy
    )  # fmt: skip


def _waived(found: Sequence[Verdict], waivers: Sequence[Waiver], today: date) -> Iterable[Check]:
    from aidiag.rules.waivers import waiver_for

    for verdict in found:
        check = _check(verdict)
        waiver = (
            waiver_for(waivers, verdict.id, verdict.target, today)
            if verdict.status in ("warning", "critical")
            else None
        )
        if waiver is not None:
            check = replace(check, waived=f"until {waiver.until}: {waiver.reason}")
        yield check
