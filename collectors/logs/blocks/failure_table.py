"""torchrun's table of failures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from aidiag.collectors.logs.blocks.block import Outcome
from aidiag.collectors.logs.scanner import Line
from aidiag.collectors.observation import FieldValue


class FailureTable:
    """torchrun's table: entries of `key : value` lines, each behind its `[number]:`, under two headings."""

    reopens: ClassVar[bool] = False
    part_of: ClassVar[tuple[str, ...]] = ()

    _PAIR = re.compile(r"\s{0,8}(time|host|rank|exitcode|error_file|traceback)\s{0,12}: (.{0,1000}).*")
    _RULE = re.compile(r"\s{0,4}(?:-{8,500}|={8,500}|<NO_OTHER_FAILURES>|Failures:|\[\d{1,6}\]:)\s{0,4}")
    _ROOT = re.compile(r"\s{0,4}Root Cause \(first observed failure\):\s{0,4}")
    _RANK = re.compile(r"(\d{1,7})\s{1,8}\(local_rank: (\d{1,4})\)")
    _EXIT = re.compile(r"(-?\d{1,5})\s{1,8}\(pid: (\d{1,10})\)(?: \((\w{1,20})\))?")
    _SIGNAL = re.compile(r"Signal \d{1,3} \((SIG\w{1,12})\)")

    def __init__(self, fields: Mapping[str, FieldValue], doubtful: bool) -> None:
        self.over = False
        self._root = False
        self._entry: dict[str, str] = {}
        self._evidence: tuple[Line, int] | None = None

    def take(self, line: Line, start: int, content: str) -> list[Outcome]:
        """Read a line of the table."""
        if pair := self._PAIR.fullmatch(content):
            self._entry.setdefault(pair[1], pair[2].strip())
            if pair[1] == "exitcode":
                self._evidence = (line, start)
            return []
        root = bool(self._ROOT.fullmatch(content))
        if not content.strip() or (self._entry and content[:4].isspace()):
            return []  # an empty line, or a traceback within an entry
        told = self.close()
        self._root = self._root or root
        self.over = not root and (not self._RULE.fullmatch(content) or content.strip().startswith("===="))
        return told

    def close(self) -> list[Outcome]:
        """The entry that has been read so far."""
        entry, evidence = self._entry, self._evidence
        self._entry, self._evidence = {}, None
        rank, ended = self._RANK.match(entry.get("rank", "")), self._EXIT.match(entry.get("exitcode", ""))
        if not rank or not ended or not evidence:
            return []
        fields: dict[str, FieldValue] = {
            "rank": int(rank[1]),
            "local_rank": int(rank[2]),
            "exit_code": int(ended[1]),
            "pid": int(ended[2]),
            "first": self._root,
        }
        if entry.get("host"):
            fields["host"] = entry["host"]
        if signal := ended[3] or self._named(entry.get("traceback", "")):
            fields["signal"] = signal
        return [Outcome(*evidence, fields, entry.get("time", ""))]

    def _named(self, traceback: str) -> str:
        found = self._SIGNAL.search(traceback)
        return found[1] if found else ""
