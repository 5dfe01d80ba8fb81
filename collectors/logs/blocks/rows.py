"""Lists and descriptions that launchers and kubectl print: pods, a described pod, an exit code, names of tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from aidiag.collectors.logs.blocks.block import Outcome, TextBlock
from aidiag.collectors.logs.scanner import Line
from aidiag.collectors.observation import FieldValue

_PROMPT = re.compile(r"\s{0,8}(?:[\w.-]{1,64}@[\w.:~/-]{1,200}|\([\w.-]{1,64}\))?\s?[$#%] ")


class Pods(TextBlock):
    """`kubectl get pods`: one row a pod, with how many of its containers are ready, its state and its restarts."""

    reopens: ClassVar[bool] = True

    _ROW = re.compile(
        r"\s{0,8}(?:[a-z0-9.-]{1,253}\s{1,64})?([a-z0-9][a-z0-9.-]{0,252})\s{1,64}(\d{1,4})/(\d{1,4})\s{1,64}([A-Z][\w:/.]{1,64})\s{1,64}(\d{1,7})(?:\s.{0,400})?"
    )

    def __init__(self, fields: Mapping[str, FieldValue], doubtful: bool) -> None:
        self.over = False
        self._began = False

    def take(self, line: Line, start: int, content: str) -> list[Outcome]:
        """Read the heading or a row."""
        if not self._began or not content.strip():
            self._began = True
            return []
        row = self._ROW.fullmatch(content)
        if row is None:
            self.over = True
            return []
        fields: dict[str, FieldValue] = {
            "pod": row[1],
            "host": row[1],
            "ready": int(row[2]),
            "containers": int(row[3]),
            "state": row[4],
            "restarts": int(row[5]),
        }
        return [Outcome(line, start, fields)]

    def close(self) -> list[Outcome]:
        """Rows are told one by one."""
        return []


class DescribedPod(TextBlock):
    """`kubectl describe pod NAME`: why and with which code a container ended, and whether kubelet killed it."""

    reopens: ClassVar[bool] = True

    _REASON = re.compile(r"\s{1,16}Reason:\s{1,32}(\w{1,64})\s{0,8}")
    _EXIT = re.compile(r"\s{1,16}Exit Code:\s{1,32}(\d{1,5})\s{0,8}")
    _KILLING = re.compile(r"\s{0,16}\w{1,32}\s{1,32}(?:Killing|Preempting|Evicted)\s.{0,1000}")

    def __init__(self, fields: Mapping[str, FieldValue], doubtful: bool) -> None:
        self.over = False
        self._pod = str(fields.get("pod", ""))
        self._reason = ""
        self._ended: tuple[Line, int, dict[str, FieldValue]] | None = None
        self._began = False

    def take(self, line: Line, start: int, content: str) -> list[Outcome]:
        """Read a line of the description; a prompt ends it."""
        if not self._began:
            self._began = True
            return []
        if _PROMPT.match(content):
            self.over = True
            return self.close()
        if reason := self._REASON.fullmatch(content):
            self._reason = reason[1]
        elif (ended := self._EXIT.fullmatch(content)) and int(ended[1]):
            told = self.close()
            fields: dict[str, FieldValue] = {"pod": self._pod, "host": self._pod, "exit_code": int(ended[1])}
            if self._reason:
                fields["reason"] = self._reason
            self._ended = (line, start, fields)
            return told
        elif self._ended is not None and self._KILLING.fullmatch(content):
            self._ended[2]["killing"] = " ".join(content.split())
        return []

    def close(self) -> list[Outcome]:
        """The container that was seen to end."""
        ended, self._ended = self._ended, None
        return [Outcome(*ended)] if ended else []


class ExitCode(TextBlock):
    """Open MPI's `Process name: [[…],3]` with `Exit code: 1` on the next line."""

    reopens: ClassVar[bool] = True

    _EXIT = re.compile(r"\s{0,8}Exit code:\s{1,16}(-?\d{1,5})\s{0,8}")

    def __init__(self, fields: Mapping[str, FieldValue], doubtful: bool) -> None:
        self.over = False
        self._fields = dict(fields)
        self._opening: tuple[Line, int] | None = None

    def take(self, line: Line, start: int, content: str) -> list[Outcome]:
        """Read the name, then the code."""
        if self._opening is None:
            self._opening = (line, start)
            return []
        self.over = True
        ended = self._EXIT.fullmatch(content)
        return [Outcome(*self._opening, self._fields | {"exit_code": int(ended[1])})] if ended else []

    def close(self) -> list[Outcome]:
        """A name without a code says nothing."""
        return []


class TaskNames(TextBlock):
    """Names of tasks, `/job:jax_worker/replica:0/task:3`, on the line that announces them or on lines of their own."""

    reopens: ClassVar[bool] = True

    _TASK = re.compile(r"/job:\w{1,64}/(?:replica:\d{1,7}/)?task:(\d{1,7})")

    def __init__(self, fields: Mapping[str, FieldValue], doubtful: bool) -> None:
        self.over = False
        self._fields = dict(fields)
        self._tasks: list[str] = []
        self._opening: tuple[Line, int] | None = None

    def take(self, line: Line, start: int, content: str) -> list[Outcome]:
        """Read the announcement, or a line of names."""
        if self._opening is None:
            self._opening = (line, start)
            if "ranks" in self._fields:
                self.over = True
                return [Outcome(line, start, self._fields | {"ranks": str(self._fields["ranks"])})]
        found = self._TASK.findall(content)
        self._tasks += found
        if not found and (self._tasks or content.strip()) and self._opening[0] is not line:
            self.over = True
            return self.close()
        return []

    def close(self) -> list[Outcome]:
        """The tasks that were named."""
        if self._opening is None or not self._tasks:
            return []
        ranks = ", ".join(dict.fromkeys(self._tasks))
        self._tasks = []
        return [Outcome(*self._opening, self._fields | {"ranks": ranks})]
