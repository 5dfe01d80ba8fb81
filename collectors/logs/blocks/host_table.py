"""Tables of programs that look at a host: ps, top, iostat, nvidia-smi dmon and --query-gpu, nproc."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from aidiag.collectors.logs.blocks.block import Outcome, TextBlock
from aidiag.collectors.logs.scanner import Line
from aidiag.collectors.observation import FieldValue

ROWS_LIMIT = 256

_FIELDS = {
    "pid": "pid",
    "psr": "core", "p": "core", "processor": "core", "cpuid": "core",
    "pcpu": "percent", "%cpu": "percent", "c": "percent",
    "s": "state", "stat": "state", "state": "state",
    "comm": "command", "command": "command", "cmd": "command", "args": "command",
    "%util": "percent", "util": "percent",
    "device": "device", "device:": "device",
    "gpu": "gpu", "index": "gpu", "sm": "percent", "utilization.gpu": "percent",
}  # fmt: skip
_NUMBERS = frozenset({"pid", "core", "percent", "gpu"})


class HostTable(TextBlock):
    """Rows below a header, or below a command that names the columns, to the next prompt. One event a row."""

    reopens: ClassVar[bool] = True

    _PROMPT = re.compile(r"\s{0,4}(?:[\w.@:~/\[\] -]{0,120}\$|[\w.@:~/\[\] -]{1,120}#|#)[ ](?! {0,4}(?:gpu|Idx)).*")
    _PS = re.compile(r"\bps .{0,80}?-?o[ ]?(?P<columns>[a-z%][\w,%=.:]{1,200})")
    _QUERY = re.compile(r"--query-(?:gpu|compute-apps)=(?P<columns>[\w.,]{1,400})")
    _DISK = re.compile(
        r"(?:sd[a-z]{1,2}|nvme\d{1,3}n\d{1,3}|vd[a-z]{1,2}|xvd[a-z]|md\d{1,4}|dm-\d{1,4}|hd[a-z])\d{0,3}:?"
    )

    def __init__(self, fields: Mapping[str, FieldValue], doubtful: bool) -> None:
        self.over = False
        self._columns: list[str] = []
        self._comma = False
        self._disks = False
        self._single = False
        self._began = False
        self._rows = 0

    def take(self, line: Line, start: int, content: str) -> list[Outcome]:
        """Read the command or header, a row, or what comes after the table."""
        if not self._began:
            self._began = True
            self._begin(content)
            return []
        text = content.strip()
        if self.over or not text:
            return []
        if self._PROMPT.fullmatch(content) or self._rows >= ROWS_LIMIT:
            self.over = True
            return []
        text = text.removeprefix("# ") if text.startswith(("# gpu", "# Idx")) else text
        cells = [cell.strip() for cell in text.split(",")] if self._comma else text.split()
        if self._single:
            self.over = True
            return [Outcome(line, start, {"cpus": int(text)})] if re.fullmatch(r"\d{1,5}", text) else []
        if self._is_header(cells):
            self._columns = [cell.lower() for cell in cells if cell != "#"]
            return []
        fields = self._disk(cells) if self._disks else self._row(cells)
        if fields is None:
            return []
        self._rows += 1
        return [Outcome(line, start, fields)]

    def close(self) -> list[Outcome]:
        """Rows are told as they come."""
        return []

    def _begin(self, content: str) -> None:
        if found := self._QUERY.search(content):
            self._columns, self._comma = found["columns"].lower().split(","), True
        elif found := self._PS.search(content):
            self._columns = [one.split("=")[0].split(":")[0] for one in found["columns"].lower().split(",")]
        elif re.search(r"\bnproc\b", content):
            self._single = True
        elif re.search(r"\biostat\b", content) or content.strip().startswith("Device"):
            self._disks = True
            self._columns = [cell.lower() for cell in content.split()] if content.strip().startswith("Device") else []
        else:
            self._columns = [cell.lower() for cell in content.split() if cell != "#"]

    @staticmethod
    def _is_header(cells: list[str]) -> bool:
        known = [cell for cell in cells if cell.lower().strip("#") in _FIELDS]
        return len(known) >= 2 and not any(re.fullmatch(r"[\d.]{1,20}", cell) for cell in cells)

    def _disk(self, cells: list[str]) -> dict[str, FieldValue] | None:
        if len(cells) < 6 or not self._DISK.fullmatch(cells[0]):
            return None
        at = self._columns.index("%util") if "%util" in self._columns else len(cells) - 1
        value = _number(cells[at]) if at < len(cells) else None
        return {"device": cells[0].strip(":"), "percent": value} if value is not None and value <= 110 else None

    def _row(self, cells: list[str]) -> dict[str, FieldValue] | None:
        fields: dict[str, FieldValue] = {}
        for column, cell in zip(self._columns, cells, strict=False):
            name = _FIELDS.get(column)
            if name is None or name in fields:
                continue
            if name not in _NUMBERS:
                fields[name] = cell[:100]
                continue
            value = _number(cell.removesuffix("%").strip())
            if value is None:
                return None
            fields[name] = value if name == "percent" else int(value)
        return fields if "percent" in fields or "state" in fields else None


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d{1,7}(?:[.,]\d{1,4})?", text) and "," not in text else None
