"""Files of /proc that tell of the whole host (proc(5)), parsed."""

from __future__ import annotations

import re

USER_HZ = 100
"""Ticks per second of times in /proc, the same on every architecture that runs GPUs."""
CPU_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")

_FIELD = re.compile(r"^(\S+?):?\s+(\d{1,20})(?: kB)?$", re.MULTILINE)
_STALL = re.compile(r"^some .*\btotal=(\d{1,20})$", re.MULTILINE)


def parse_cpu_seconds(stat: str) -> dict[str, float]:
    """CPU time of all CPUs by mode, from /proc/stat. `user` and `nice` contain the time of guests. Raises ValueError."""
    words = stat.split("\n", 1)[0].split()
    if len(words) < 5 or words[0] != "cpu":
        raise ValueError("/proc/stat does not start with the times of all CPUs")
    return {mode: int(ticks) / USER_HZ for mode, ticks in zip(CPU_MODES, words[1:], strict=False)}


def parse_meminfo(meminfo: str) -> dict[str, int]:
    """/proc/meminfo in bytes; the counts of huge pages are multiplied too, and not to be used."""
    return {name: int(kilobytes) << 10 for name, kilobytes in _FIELD.findall(meminfo)}


def parse_vmstat(vmstat: str) -> dict[str, int]:
    """/proc/vmstat: name to count."""
    return {name: int(count) for name, count in _FIELD.findall(vmstat)}


def parse_stall_seconds(pressure: str) -> float:
    """How long at least one task waited, from a file of /proc/pressure (Documentation/accounting/psi.rst). Raises
    ValueError.
    """
    match = _STALL.search(pressure)
    if not match:
        raise ValueError("no line with a total")
    return int(match[1]) / 1e6
