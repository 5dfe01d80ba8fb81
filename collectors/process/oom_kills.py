"""Whether the kernel's OOM killer ended a process, by the kernel's own log."""

from __future__ import annotations

from dataclasses import replace

from aidiag.collectors.errors import CollectorError
from aidiag.collectors.kmsg_device import KernelLog
from aidiag.collectors.kmsg_lines import KernelLines
from aidiag.collectors.node import Node
from aidiag.collectors.observation import Event, Place

SIGKILL = 9
SOURCE = "/dev/kmsg"
LINE_LIMIT = 1024
KEPT = 1024


class OomKills:
    """Reads the kernel log, only when a process has ended by SIGKILL: the line is there before the process is gone."""

    def __init__(self, node: Node, log: KernelLog | None = None) -> None:
        self._log = log or (KernelLog(SOURCE) if node.live else None)
        self._lines = KernelLines()
        self._victims: dict[int, str] = {}

    def judge(self, event: Event) -> Event:
        """The end of a process with the field `oom_killed`, where it ended by SIGKILL and the log may be read."""
        pid = event.fields.get("host_pid", event.fields.get("pid"))
        if event.fields.get("exit_code") != -SIGKILL or not isinstance(pid, int) or not self._read():
            return event
        text = self._victims.get(pid)
        fields = {**event.fields, "oom_killed": text is not None}
        return replace(event, fields=fields, place=Place(SOURCE, None, text) if text else event.place)

    def _read(self) -> bool:
        if self._log is None:
            return False
        try:
            lines, _ = self._log.take()
        except (CollectorError, OSError):
            return False
        for line in lines:
            fact = self._lines.fact(line.text) if line.from_kernel else None
            pid = fact.fields.get("pid") if fact is not None and fact.kind == "host_oom_kill" else None
            if isinstance(pid, int):
                self._victims.pop(pid, None)
                self._victims[pid] = line.text[:LINE_LIMIT]
        while len(self._victims) > KEPT:
            self._victims.pop(next(iter(self._victims)))
        return True
