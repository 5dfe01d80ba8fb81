"""What launchers, loggers and kernels put before a message: who printed it, and when.

A prefix counts only when everything before the message parses, from the start of the line. What is left of a prefix after two
processes wrote into one line never does, and two prefixes of different owners on one line are a contradiction.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from aidiag.collectors.logs.labels import BAR, LABEL, LEAD, Bare, bare_label, parallel_rank
from aidiag.collectors.logs.stamps import Stamp

RANK_LIMIT = 1 << 20

SHARED_BYTES = 256
"""Prefixes up to this length are read once and remembered."""


@dataclass(slots=True)
class Prefix:
    """What stands before a message. `whole` is False when it does not parse, or contradicts itself.

    `bare` is a label that only the lines around can confirm. `said_rank` is what a program of the user calls its rank.
    """

    end: int = 0
    content: int = 0
    whole: bool = True
    stage: int = 0
    rank: int | None = None
    task: int | None = None
    said_rank: int | None = None
    local_rank: int | None = None
    group_rank: int | None = None
    host: str = ""
    forwarded: bool = False
    pid: int | None = None
    device: int | None = None
    stamp: Stamp | None = None
    bare: Bare | None = None

    @property
    def identity(self) -> tuple[object, ...]:
        """What the labels say about who printed the line, to compare lines by."""
        bare = (self.bare.task, self.bare.host) if self.bare else None
        return (self.rank, self.task, self.said_rank, self.local_rank, self.host, self.pid, bare)

    def _set(self, name: str, value: int | str) -> None:
        before = getattr(self, name)
        if before not in (None, "", value):
            self.whole = False
        setattr(self, name, value)


# Labels of those who forward a line: the process that printed it may know its host by another name.
_FORWARDERS = ("actor_host", "pod", "task_host", "syslog_host", "kernel_host")
_PIDS = ("pid", "glog_pid")
_NUMBERS = ("rank", "task", "said_rank", "local_rank", "group_rank", "device")

# Labels stand in this order, from that of the outermost program to that of the library that prints.
_STAGES = {
    **dict.fromkeys(("task", "task_host", "pod", "actor_pid", "syslog_host", "kernel_host"), 1),
    "local_rank": 2,
    "rank": 3,
    "said_rank": 3,
    **dict.fromkeys(("pid", "c10", "glog_pid"), 4),
    **dict.fromkeys(("pid__mpi", "parallel__vllm", "rank__vllm"), 1),
    "glog_pid__composer": 3,
}
_GROUPS = tuple(sorted(LABEL.groupindex, key=lambda name: LABEL.groupindex[name]))
"""All groups of a label, which have a name each, in their order."""
_STAMPS = ("iso", "iso_boxed", "day", "us", "glog", "glog_bare", "syslog", "ctime", "epoch")


def read_prefix(text: bytes, message: int) -> Prefix:
    """The prefix of the message that starts at `message`. Not to be changed: lines of one process share it."""
    return (_read_prefix if message <= SHARED_BYTES else _read_prefix.__wrapped__)(text[:message])


@lru_cache(maxsize=4096)
def _read_prefix(text: bytes) -> Prefix:
    prefix = Prefix()
    at = _labels(text, prefix)
    prefix.content = at
    while at < len(text):
        start = at
        at = _labels(text, prefix, at)
        if at == start and (lead := LEAD.match(text, at)):
            at = lead.end()
            if lead["group_rank"] is not None:
                prefix._set("group_rank", int(lead["group_rank"]))
        if at == start and prefix.stage <= _STAGES["local_rank"] and (bar := BAR.match(text, at)):
            at = bar.end()  # no program's label before it, which would be that of the bar alone
        if at == start:
            prefix.whole = False
            break
    prefix.end = at
    return prefix


def read_labels(text: bytes) -> Prefix:
    """The labels at the start of a line, and where its content begins (`content`)."""
    prefix = Prefix()
    prefix.content = prefix.end = _labels(text, prefix)
    return prefix


def _labels(text: bytes, prefix: Prefix, at: int = 0) -> int:
    """Read labels into `prefix`; where they end."""
    if at == 0 and (bare := bare_label(text)) and (bare.style != "host" or not LEAD.match(text)):
        prefix.bare = bare
        at = bare.end
    while label := LABEL.match(text, at):
        at = label.end()
        for group, value in zip(_GROUPS, label.groups(), strict=True):
            if value is not None:
                _take(prefix, group, value.decode())
    return at


def _take(prefix: Prefix, group: str, value: str) -> None:
    """Take what one group of a label says into `prefix`."""
    name, _, style = group.partition("__")
    if name in _STAMPS:
        prefix.stamp = prefix.stamp or Stamp(name, value)
        return
    if (
        name == "said_rank"
        and prefix.stage == _STAGES["c10"]
        and prefix.device is None
        and prefix.rank in (None, int(value))
    ):
        group = name = "group_rank"  # so writes torch: the rank in a process group
    stage = _STAGES.get(group, _STAGES.get(name, prefix.stage))
    prefix.whole = prefix.whole and stage >= prefix.stage
    prefix.stage = stage
    if name == "parallel":
        number = parallel_rank(style, value)
        if number is not None:
            prefix._set("rank", number)
    elif name in _FORWARDERS:
        prefix.host, prefix.forwarded = value, True
    elif name == "host":
        if prefix.forwarded:
            prefix.host = ""
        prefix._set("host", value)
        prefix.forwarded = False
    elif name == "actor_pid":
        prefix.pid = int(value)  # a worker speaks through the process that started it: the inner one is meant
    elif name in _PIDS:
        prefix._set("pid", int(value))
    elif name in _NUMBERS:
        prefix._set(name, int(value))
