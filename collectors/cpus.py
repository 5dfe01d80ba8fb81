"""Lists of CPUs as the kernel writes them."""

from __future__ import annotations

CPUS_LIMIT = 1 << 16
"""More than any kernel is built for (CONFIG_NR_CPUS is at most 8192)."""


def parse_cpu_list(text: str) -> frozenset[int]:
    """Parse a list such as `0-47,96-143`. Raises ValueError where it is none."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, dash, last = part.partition("-")
        low, high = int(first), int(last if dash else first)
        if not 0 <= low <= high < CPUS_LIMIT:
            raise ValueError(f"{part!r} is no range of CPUs")
        cpus.update(range(low, high + 1))
    return frozenset(cpus)
