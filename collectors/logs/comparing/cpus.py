"""How few CPUs a job may use: affinity masks, quotas, and what torch counts, beside what the host has."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aidiag.collectors.logs.comparing.found import found
from aidiag.collectors.observation import Event

BUSY_PERCENT = 3.0
"""A process with less CPU than this does not contend for it."""

PROCESSES_KEPT = 512


class Cpus:
    """The least number of CPUs that was told, the most that the host has, and on how many cores busy processes run."""

    def __init__(self) -> None:
        self._allowed: tuple[float, Event, str] | None = None
        self._present: int | None = None
        self._workers: int | None = None
        self._periods: int | None = None
        self._throttled: tuple[int, Event] | None = None
        self._processes: list[Event] = []

    def add(self, event: Event) -> None:
        """Take note of a mask, a quota, a number of CPUs or a process."""
        fields = event.fields
        if event.kind == "cpus_allowed":
            count = _of_list(str(fields["list"])) if "list" in fields else _of_mask(str(fields.get("mask", "")))
            self._limit(count, event, "affinity")
        elif event.kind == "cpu_quota":
            quota, period, cpus = fields.get("quota"), fields.get("period", 100_000), fields.get("cpus")
            step, tasks = fields.get("step_cpus"), fields.get("tasks")
            if isinstance(step, int) and isinstance(tasks, int) and tasks > 0:
                self._limit(step / tasks, event, "quota")
            if isinstance(quota, int) and isinstance(period, int) and quota > 0 and period > 0:
                self._limit(quota / period, event, "quota")
            elif isinstance(cpus, int | float):
                self._limit(float(cpus), event, "quota")
        elif event.kind == "cpus_advised":
            cpus, workers = fields.get("cpus"), fields.get("workers")
            if isinstance(cpus, int):
                self._limit(float(cpus), event, "advice")
            self._workers = workers if isinstance(workers, int) else self._workers
        elif event.kind == "cpus_present":
            cpus = fields.get("cpus")
            if isinstance(cpus, int) and cpus > 0:
                if (self._present is not None and cpus < self._present) or self._present is None:
                    self._limit(float(cpus), event, "count")
                self._present = max(self._present or 0, cpus)
        elif event.kind == "cpus_bound":
            self._limit(1.0, event, "binding")
        elif event.kind == "cpu_throttled":
            self._throttle(event)
        elif event.kind == "process_cpu" and len(self._processes) < PROCESSES_KEPT:
            self._processes.append(event)

    def finish(self) -> Iterator[Event]:
        """What the words say together."""
        if self._allowed is not None:
            allowed, event, how = self._allowed
            yield found("cpus_compared", event, allowed=allowed, present=self._present, workers=self._workers, how=how)
        if self._throttled is not None and self._periods:
            count, event = self._throttled
            yield found("throttling_compared", event, share=min(1.0, count / self._periods), periods=self._periods)
        busy = [one for one in self._processes if _number(one, "percent") >= BUSY_PERCENT]
        cores = {one.fields["core"] for one in busy if "core" in one.fields}
        if len(busy) >= 3 and cores:
            yield found("host_load", busy[-1], processes=len(busy), cores_used=len(cores))

    def _limit(self, count: float | None, event: Event, how: str) -> None:
        if count and (self._allowed is None or count < self._allowed[0]):
            self._allowed = (count, event, how)

    def _throttle(self, event: Event) -> None:
        periods, throttled, percent = (event.fields.get(name) for name in ("periods", "throttled", "percent"))
        if isinstance(periods, int):
            self._periods = periods
        if isinstance(throttled, int):
            self._throttled = (throttled, event)
        if isinstance(percent, int | float):
            self._periods, self._throttled = 1000, (round(percent * 10), event)


def _of_mask(text: str) -> float | None:
    digits = text.lower().removeprefix("0x").replace(",", "")
    return float(int(digits, 16).bit_count()) if re.fullmatch(r"[0-9a-f]{1,256}", digits) else None


def _of_list(text: str) -> float | None:
    """How many CPUs `0-3,8` names."""
    count = 0
    for part in text.strip("{}[]() ").split(","):
        run = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part.strip())
        if run is None:
            return None
        count += int(run[2] or run[1]) - int(run[1]) + 1
    return float(count)


def _number(event: Event, name: str) -> float:
    value = event.fields.get(name)
    return float(value) if isinstance(value, int | float) else 0.0
