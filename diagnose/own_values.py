"""The values of a job's own variables, put into the commands of its remedies."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace

from aidiag.collectors.observation import Event
from aidiag.rules.finding import Finding, Step

VALUES_KEPT = 4096

_VARIABLE = re.compile(r"\$\{?([A-Z][A-Z0-9_]{1,60})\}?")
_HARMLESS = re.compile(r"[\w.:/@%+,^=-]{1,200}")
"""What a shell takes as it stands. A log must not put anything else into a command that somebody copies."""

_STEP = re.compile(r"(\d{1,12})(?:\.\w{1,20})?")


class OwnValues:
    """What the logs of an incident tell of its variables. One that differs between ranks is not filled in."""

    def __init__(self) -> None:
        self._values: dict[str, set[str]] = defaultdict(set)

    def see(self, event: Event) -> None:
        """Take note of a variable that was set, or of the id of a Slurm job."""
        if event.kind in ("environment_variable", "nccl_setting"):
            self._note(str(event.fields.get("name", "")), str(event.fields.get("value", "")))
        elif event.kind in ("job_cancelled", "task_out_of_memory"):
            found = _STEP.fullmatch(str(event.fields.get("job") or event.fields.get("step") or ""))
            if found:
                self._note("SLURM_JOB_ID", found[1])

    def fill(self, finding: Finding) -> Finding:
        """The finding with the job's own values in its commands."""
        return replace(finding, remedy=tuple(self._step(step) for step in finding.remedy))

    def _step(self, step: Step) -> Step:
        return replace(step, command=_VARIABLE.sub(self._value, step.command)) if "$" in step.command else step

    def _value(self, found: re.Match[str]) -> str:
        values = self._values.get(found[1], set())
        return next(iter(values)) if len(values) == 1 else found[0]

    def _note(self, name: str, value: str) -> None:
        room = len(self._values[name]) < 2 if name in self._values else len(self._values) < VALUES_KEPT
        if name and room and _HARMLESS.fullmatch(value):
            self._values[name].add(value)
