"""Messages of several lines: tracebacks, torchrun's table of failures, Horovod's list of missing ranks.

A block is opened by a message of the catalogue (`opens:`). From then on it is given the content of each line that carries
the same labels as its first one, since lines of other ranks may come between.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from aidiag.collectors.logs.scanner import Line
from aidiag.collectors.observation import FieldValue


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a block told: the fields of an event, and the line and column of its evidence. `time` is what it states."""

    line: Line
    start: int
    fields: Mapping[str, FieldValue] = field(default_factory=dict)
    time: str = ""


class TextBlock(Protocol):
    """A block that is being read. `over` once the line just taken was its last."""

    over: bool
    reopens: ClassVar[bool]
    """Whether its first line, when it comes again, begins a new block."""

    def __init__(self, fields: Mapping[str, FieldValue], doubtful: bool) -> None:
        """Begin. `fields` are those of the opening message; `doubtful` when it cut another block of its kind short."""

    def take(self, line: Line, start: int, content: str) -> list[Outcome]:
        """Read a line, the opening one first. `start` is where its content begins."""

    def close(self) -> list[Outcome]:
        """What can be said when the stream ends here."""


class Traceback:
    """`Traceback (most recent call last):`, frames, and at the end the exception. Keeps the deepest frame of the user."""

    reopens: ClassVar[bool] = True

    _FRAME = re.compile(r'\s{1,64}File "([^"]{1,1000})", line (\d{1,9})(?:, in (.{1,200}))?')
    _END = re.compile(r"([A-Za-z_][\w.]{0,200})(?::\s?(.{0,1000}).*)?")
    _LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python\d|/torch/|^<")

    def __init__(self, fields: Mapping[str, FieldValue], doubtful: bool) -> None:
        self.over = False
        self._doubtful = doubtful
        self._began = False
        self._deepest: tuple[str, int, str] | None = None
        self._user: tuple[str, int, str] | None = None

    def take(self, line: Line, start: int, content: str) -> list[Outcome]:
        """Read a frame, a line of code, or the exception at the end."""
        if not self._began:
            self._began = True
            return []
        if frame := self._FRAME.match(content):
            self._deepest = (frame[1], int(frame[2]), (frame[3] or "").strip())
            if not self._LIBRARY.search(frame[1]):
                self._user = self._deepest
            return []
        if not content.strip() or content[0] in " \t":
            return []
        self.over = True
        ended = self._END.fullmatch(content)
        if not ended or not self._deepest:
            return []
        fields: dict[str, FieldValue] = {"type": ended[1]}
        if ended[2]:
            fields["text"] = ended[2].strip()
        if not self._doubtful:
            fields["file"], fields["line"], function = self._user or self._deepest
            fields |= {"function": function} if function else {}
        return [Outcome(line, start, fields)]

    def close(self) -> list[Outcome]:
        """Without its last line a traceback says nothing."""
        return []


class FailureTable:
    """torchrun's table: entries of `key : value` lines, each behind its `[number]:`, under two headings."""

    reopens: ClassVar[bool] = False

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


class MissingRanks:
    """Horovod's stall report: after `Missing ranks:` one line a rank, with the tensors it has not submitted."""

    reopens: ClassVar[bool] = True

    _ENTRY = re.compile(r"(\d{1,7})!?: \[([^\],]{0,1000})")

    def __init__(self, fields: Mapping[str, FieldValue], doubtful: bool) -> None:
        self.over = False
        self._fields = dict(fields)
        self._ranks: list[str] = []
        self._opening: tuple[Line, int] | None = None

    def take(self, line: Line, start: int, content: str) -> list[Outcome]:
        """Read the report's text, its heading, a rank, or what comes after the list."""
        if self._opening is None:
            self._opening = (line, start)
        elif entry := self._ENTRY.match(content):
            self._ranks.append(entry[1])
            self._fields.setdefault("tensor", entry[2].strip())
        elif content.strip() and not content.startswith("Missing ranks"):
            self.over = True
            return self.close()
        return []

    def close(self) -> list[Outcome]:
        """The report with the ranks that it has named so far."""
        if self._opening is None:
            return []
        return [Outcome(*self._opening, self._fields | ({"ranks": " ".join(self._ranks)} if self._ranks else {}))]


BLOCKS: Mapping[str, type[TextBlock]] = {
    "traceback": Traceback,
    "failure_table": FailureTable,
    "missing_ranks": MissingRanks,
}
