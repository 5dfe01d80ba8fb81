"""Which process a file belongs to: a process id alone is used again, and is not unique across containers.

An owner is named by boot id, process-id namespace, process id and start time. It stands in the names of the files that
the shim leaves, so that whoever finds one can tell whether its process still lives without opening it.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple, Optional

_NAME = re.compile(r"([0-9a-f]{32})-(\d{1,19})-(\d{1,10})-(\d{1,19})-([0-9a-f]{8})\.(?:([a-z_]{1,32})\.)?(record|off)")


class Owner(NamedTuple):
    """One process for as long as the machine is up."""

    boot_id: str
    pid_namespace: int
    pid: int
    start_ticks: int


class FileName(NamedTuple):
    """A file of the shim: `kind` is `record`, or `off` with the code of why the shim is off."""

    owner: Owner
    kind: str
    code: str


def this_process(proc: str = "/proc") -> Owner:
    """The owner that this process is. Raises OSError where /proc is not there."""
    with open(f"{proc}/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot_id = file.read().strip().replace("-", "")
    start_ticks = read_start_ticks("self", proc)
    if start_ticks is None:
        raise OSError(f"{proc}/self/stat cannot be read")
    return Owner(boot_id, os.stat(f"{proc}/self/ns/pid").st_ino, os.getpid(), start_ticks)


def _stat_fields(pid: object, proc: str) -> Optional[list[bytes]]:
    """The fields of /proc/PID/stat from the state on (proc(5) field 3); the name before may hold spaces and brackets."""
    try:
        with open(f"{proc}/{pid}/stat", "rb") as file:
            return file.read(4096).rpartition(b")")[2].split()
    except OSError:
        return None


def read_start_ticks(pid: object, proc: str = "/proc") -> Optional[int]:
    """When a process started, in clock ticks since boot (field 22), None when there is no such process."""
    fields = _stat_fields(pid, proc)
    return int(fields[19]) if fields and len(fields) > 19 else None


def read_parent(pid: object, proc: str = "/proc") -> Optional[int]:
    """The process id of a process's parent (field 4), None when there is no such process."""
    fields = _stat_fields(pid, proc)
    return int(fields[1]) if fields and len(fields) > 1 else None


def lives(owner: Owner, here: Owner, proc: str = "/proc") -> Optional[bool]:
    """Whether an owner still runs; None when it belongs to another process-id namespace, which cannot be told here.

    A zombie has ended.
    """
    if owner.boot_id != here.boot_id:
        return False
    if owner.pid_namespace != here.pid_namespace:
        return None
    fields = _stat_fields(owner.pid, proc) or []
    return len(fields) > 19 and int(fields[19]) == owner.start_ticks and fields[0] not in (b"Z", b"X")


def file_name(owner: Owner, kind: str = "record", code: str = "") -> str:
    """A new name for a file of `owner`."""
    stem = f"{owner.boot_id}-{owner.pid_namespace}-{owner.pid}-{owner.start_ticks}-{os.urandom(4).hex()}"
    return f"{stem}.{code}.{kind}" if code else f"{stem}.{kind}"


def parse_file_name(name: str) -> Optional[FileName]:
    """What a name says, None when the shim did not make it."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    boot_id, namespace, pid, ticks, _, code, kind = match.groups()
    return FileName(Owner(boot_id, int(namespace), int(pid), int(ticks)), kind, code or "")
