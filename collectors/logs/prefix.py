"""What launchers, loggers and kernels put before a message: who printed it, and when.

A prefix counts only when everything before the message parses, from the start of the line. What is left of a prefix after two
processes wrote into one line never does, and two prefixes of different owners on one line are a contradiction.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from aidiag.collectors.logs.stamps import Stamp

RANK_LIMIT = 1 << 20

SHARED_BYTES = 256
"""Prefixes up to this length are read once and remembered."""

_HOST = rb"[A-Za-z0-9][A-Za-z0-9_.-]{0,253}"
_ISO = rb"\d{4}[-/]\d\d[-/]\d\d[T _]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"

# Who printed the line, or when. Each alternative ends with the blanks that separate it from what follows.
_LABEL = re.compile(
    rb"(?P<iso>" + _ISO + rb")[ \t](?:std(?:out|err)[ ][FP][ ])?(?:[-|][ ])?"  # container runtime (CRI), Python logging
    rb"|\[(?P<iso_boxed>" + _ISO + rb")(?::[ ][A-Z][ ][^\]]{1,200})?\]:?[ _]?"  # NCCL, Python logging, Horovod
    rb"|\[rank(?P<rank>\d{1,7})\]:?[ ]?"  # torch from 2.3, and programs that label ranks in its way
    rb"|\[\d{1,5},(?P<task>\d{1,7})\]<std(?:out|err)>:[ ]?"  # mpirun --tag-output
    rb"|\[[A-Za-z_]{1,32}(?P<local_rank>\d{1,4})\]:[ ]?"  # torchrun --tee: [default0]:
    rb"|\(\w{1,64} (?:rank=(?P<worker_rank>\d{1,7}) )?pid=(?P<actor_pid>\d{1,10})(?:, ip=(?P<actor_host>[0-9A-Za-z.:-]{2,64}))?\)[ ]?"  # Ray, vLLM
    rb"|\[pod/(?P<pod>[\w.-]{1,253})/[\w.-]{1,63}\][ ]?"  # kubectl logs --prefix
    rb"|(?P<host>" + _HOST + rb"):(?P<pid>\d{1,10}):\d{1,10} \[(?P<device>-?\d{1,10})\][ ]"
    rb"(?:[\w./-]{1,120}:\d{1,6}[ ](?:\([\w:~]{1,120}\)[ ])?)?(?:NCCL [A-Z]{4,7}[ ])?"  # NCCL
    rb"|\[(?P<c10>[VDIWEF])(?:(?P<glog>\d{3,4} \d\d:\d\d:\d\d\.\d{1,9})(?:[ ]+\d{1,10})?)?[ ][\w./-]{1,200}:\d{1,6}\][ ]?"  # c10 glog
    rb"|[VDIWEF](?P<glog_bare>\d{4} \d\d:\d\d:\d\d\.\d{1,9})[ ]+(?P<glog_pid>\d{1,10})[ ][\w./-]{1,200}:\d{1,6}\][ ]"  # torch's loggers
    rb"|(?P<syslog>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) (?P<syslog_host>"
    + _HOST
    + rb") [\w./()-]{1,64}(?:\[\d{1,10}\])?:[ ]"
    rb"|(?P<kernel_host>" + _HOST + rb") kernel:[ ]"  # journalctl -o short-iso, after the time
    rb"|(?:<\d{1,3}>)?\[[ ]{0,8}\d{1,9}\.\d{6}\][ ]"  # kernel ring: seconds since boot
    rb"|\[(?P<ctime>[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})\][ ]"  # dmesg -T
    rb"|(?P<epoch>\d{10}(?:\.\d{1,9})?)[ ]"
)

# A number or a name and a colon at the very start: a label only where the lines around have one as well.
_BARE_RANK = re.compile(rb"(?P<bare>[ ]{0,6}(?P<bare_task>\d{1,7})): ?")  # srun --label
_BARE_HOST = re.compile(rb"(?P<bare_host>[A-Za-z](?=[\w.-]{0,62}[\d.-])[\w.-]{0,62}): ")  # pdsh, as DeepSpeed uses it

# What stands between the labels and the message without naming anybody. No piece ends in a number and a colon, so
# that the label of another task, glued to a word, does not pass for one.
_LEAD = re.compile(
    rb"[ \t]{1,32}"
    rb"|[A-Za-z_][\w.]{0,127}(?:Error|Exception|Interrupt|Exit|Warning|Timeout):[ ]"
    rb"|\[?(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)\]?(?![\w])(?::[A-Za-z_][\w.]{0,127}[A-Za-z_]:|[:|-])?[ ]?"
    rb"|\[PG [^\[\]]{1,120} Rank (?P<group_rank>\d{1,7})\][ ]{1,2}|\[Rank (?P<plain_rank>\d{1,7})\]:?[ ]{1,2}"
    rb"|\[(?![A-Za-z_]{0,32}\d{1,7}\])(?!\d)[^\[\]<>]{0,120}\][:|-]?[ ]?"
    rb"|(?:[A-Za-z_]\w{0,63}\.){1,8}[A-Za-z_]{1,63}[ ]?[:|-][ ]"
    rb"|[A-Za-z_][\w.]{0,62}[A-Za-z_] - |[\w./-]{1,200}\.(?:py|cc|cpp|cu|h):\d{1,6}(?: -|\])[ ]"
    rb"|[A-Za-z_]{2,64}:[ ]?|NET/\w{1,16} ?: |Net : |ncclComm\w{1,40} "
    rb"|[\w./-]{1,200}\.cuh?:\d{1,6}(?=: [A-Za-z_])"  # kernel assertions
    rb"|\d\d-\d\d \d\d:\d\d:\d\d[ ]"  # vLLM, after the level
    rb"|what\(\):[ ]{1,4}|[-|:][ ]"
)


@dataclass(slots=True)
class Prefix:
    """What stands before a message. `whole` is False when it does not parse, or contradicts itself.

    `bare_label` is the number and the blanks before it of a label that only the lines around can confirm.
    """

    end: int = 0
    content: int = 0
    whole: bool = True
    stage: int = 0
    rank: int | None = None
    task: int | None = None
    local_rank: int | None = None
    group_rank: int | None = None
    host: str = ""
    pid: int | None = None
    device: int | None = None
    stamp: Stamp | None = None
    bare_label: bytes = b""
    bare_task: int | None = None
    bare_host: str = ""

    @property
    def identity(self) -> tuple[object, ...]:
        """What the labels say about who printed the line, to compare lines by."""
        return (self.rank, self.task, self.local_rank, self.host, self.pid, self.bare_task, self.bare_host)

    def _set(self, name: str, value: int | str) -> None:
        before = getattr(self, name)
        if before not in (None, "", value):
            self.whole = False
        setattr(self, name, value)


_HOSTS = ("host", "actor_host", "pod", "syslog_host", "kernel_host")
_PIDS = ("pid", "actor_pid", "glog_pid")

# Labels stand in this order, from that of the outermost program to that of the library that prints.
_STAGES = {
    **dict.fromkeys(("task", "pod", "actor_pid", "syslog_host", "kernel_host"), 1),
    "local_rank": 2,
    "rank": 3,
    **dict.fromkeys(("pid", "c10", "glog_pid"), 4),
}
_STAMPS = ("iso", "iso_boxed", "glog", "glog_bare", "syslog", "ctime", "epoch")


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
        if at == start and (lead := _LEAD.match(text, at)):
            at = lead.end()
            for name in ("group_rank", "plain_rank"):
                if lead[name] is not None:
                    prefix._set("group_rank", int(lead[name]))
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
    if at == 0:
        if bare := _BARE_RANK.match(text):
            prefix.bare_label, prefix.bare_task = bare["bare"], int(bare["bare_task"])
            at = bare.end()
        elif (host := _BARE_HOST.match(text)) and not _LEAD.match(text):
            prefix.bare_host = host["bare_host"].decode()
            at = host.end()
    while label := _LABEL.match(text, at):
        at = label.end()
        found = {name: value for name, value in label.groupdict().items() if value is not None}
        for name, value in found.items():
            stage = _STAGES.get(name, prefix.stage)
            prefix.whole = prefix.whole and stage >= prefix.stage
            prefix.stage = stage
            if name in _STAMPS:
                prefix.stamp = prefix.stamp or Stamp(name, value.decode())
            elif name in _HOSTS:
                prefix._set("host", value.decode())
            elif name in _PIDS:
                prefix._set("pid", int(value))
            elif name == "worker_rank":
                prefix._set("rank", int(value))
            elif name in ("rank", "task", "local_rank", "device"):
                prefix._set(name, int(value))
    return at
