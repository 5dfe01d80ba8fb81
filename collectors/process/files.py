"""The text of /proc/PID files (proc(5)), parsed."""

from __future__ import annotations

import os
from dataclasses import dataclass

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

STATES = {
    "R": "running",
    "S": "sleeping",
    "I": "sleeping",
    "D": "disk",
    "T": "stopped",
    "t": "stopped",
    "Z": "zombie",
    "X": "gone",
    "x": "gone",
}
"""State letters of /proc/PID/stat (fs/proc/array.c) and the words for them."""


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """One reading of /proc/PID/stat.

    CPU times are in seconds, those of children are of children that have ended and were waited for. `exit_status` is
    the wait status of a process that has ended. To readers who may not trace the process the kernel shows 0 there;
    `traceable` tells that this reader may. Only the text of a living process tells it, by the memory addresses that
    are hidden from the same readers: False means "not known".
    """

    pid: int
    name: str
    state: str
    parent_pid: int
    cpu_seconds: float
    children_cpu_seconds: float
    threads: int
    start_ticks: int
    resident_bytes: int
    traceable: bool = False
    exit_status: int | None = None

    @property
    def ended(self) -> bool:
        """Whether the process has ended and only its entry is left."""
        return self.state in ("zombie", "gone")


def parse_stat(data: bytes) -> ProcessStat:
    """Parse /proc/PID/stat. Raises ValueError where it is not the text of such a file."""
    head, parenthesis, tail = data.rpartition(b")")  # a name may hold blanks and parentheses
    pid, _, name = head.partition(b" (")
    fields = tail.split()
    if not parenthesis or len(fields) < 20:
        raise ValueError("not the text of a /proc/PID/stat file")
    start_code = int(fields[23]) if len(fields) > 23 else 0
    return ProcessStat(
        pid=int(pid),
        name=name.decode(errors="backslashreplace"),
        state=STATES.get(fields[0].decode(errors="replace"), "sleeping"),
        parent_pid=int(fields[1]),
        cpu_seconds=(int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND,
        children_cpu_seconds=(int(fields[13]) + int(fields[14])) / TICKS_PER_SECOND,
        threads=int(fields[17]),
        start_ticks=int(fields[19]),
        resident_bytes=max(0, int(fields[21])) * PAGE_BYTES if len(fields) > 21 else 0,
        traceable=start_code > 1,  # 1 stands for "hidden", 0 for a process without memory or in the middle of exec
        exit_status=int(fields[49]) if len(fields) > 49 else None,
    )


def parse_status(data: bytes) -> dict[str, str]:
    """Parse /proc/PID/status: field name to its text, such as `NSpid` to `7123 12`."""
    fields = {}
    for line in data.decode(errors="backslashreplace").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields[name] = value.strip()
    return fields


def parse_open_files_limit(data: bytes) -> int | None:
    """The soft limit of open files in /proc/PID/limits, None for no limit. Raises ValueError where it has none."""
    for line in data.splitlines():
        if line.startswith(b"Max open files"):
            soft = line[len(b"Max open files") :].split()[0:1]
            if soft:
                return None if soft[0] == b"unlimited" else int(soft[0])
    raise ValueError("no line for open files")


def parse_pids(data: bytes) -> tuple[int, ...]:
    """Parse /proc/PID/task/TID/children: process ids between blanks."""
    return tuple(int(part) for part in data.split() if part.isdigit())
