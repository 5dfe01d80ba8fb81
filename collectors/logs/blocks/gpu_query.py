"""What `nvidia-smi --query-gpu=... --format=csv` was asked, and its rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from aidiag.collectors.gpu.throttle import REASONS, SLOWDOWNS
from aidiag.collectors.logs.blocks.block import Outcome, TextBlock
from aidiag.collectors.logs.scanner import Line
from aidiag.collectors.observation import FieldValue

NUMBERS: Mapping[str, str] = {
    "index": "index",
    "temperature.gpu": "temperature",
    "clocks.sm": "clock",
    "clocks.current.sm": "clock",
    "clocks.gr": "clock",
    "clocks.current.graphics": "clock",
    "clocks.max.sm": "clock_max",
    "pcie.link.gen.current": "link_gen",
    "pcie.link.gen.gpucurrent": "link_gen",
    "pcie.link.gen.max": "link_gen_max",
    "pcie.link.width.current": "link_width",
    "pcie.link.width.max": "link_width_max",
    "utilization.gpu": "utilization",
    "ecc.errors.uncorrected.volatile.total": "ecc_uncorrected",
    "ecc.errors.uncorrected.volatile.device_memory": "ecc_uncorrected",
}
TEXTS: Mapping[str, str] = {
    "name": "name",
    "gpu_name": "name",
    "driver_version": "driver_version",
    "pci.bus_id": "device",
}
"""The columns of nvidia-smi (`--help-query-gpu`) that are kept, and the fields that they become."""

SLOWDOWN_COLUMNS: Mapping[str, str] = {
    "hw_slowdown": "hardware_slowdown",
    "hw_thermal_slowdown": "hardware_thermal",
    "hw_power_brake_slowdown": "power_brake",
    "sw_thermal_slowdown": "software_thermal",
}
PEERS_MIN = 4
BUSY_MHZ = 1000
LOW_SHARE = 0.6
"""A GPU under load runs above 1000 MHz; one of at least four that has less than six tenths of the usual clock stands out."""

_REASON = re.compile(r"clocks_(?:event|throttle)_reasons\.(\w{1,40})")
_ASKED = re.compile(r"--query-gpu[= ]([\w.,]{1,2000})")
_COLUMN = re.compile(r"(?:[a-z][\w.]{1,80})(?: \[[^\]]{1,8}\])?")


class GpuQuery(TextBlock):
    """Opened by the command or by its heading; each row that has as many cells is a reading of a GPU."""

    reopens: ClassVar[bool] = False

    def __init__(self, fields: Mapping[str, FieldValue], doubtful: bool) -> None:
        self.over = False
        self._columns: list[str] = []
        self._rows: list[Outcome] = []

    def take(self, line: Line, start: int, content: str) -> list[Outcome]:
        """Read the command, the heading, or a row."""
        if asked := _ASKED.search(content):
            self._columns = asked[1].split(",")
            return []
        cells = [cell.strip() for cell in content.split(",")]
        if all(_COLUMN.fullmatch(cell) for cell in cells) and (len(cells) > 1 or cells == self._columns):
            self._columns = [cell.split(" [")[0] for cell in cells]
            return []
        if not content.strip():
            return []
        if len(cells) != len(self._columns):
            self.over = True
            return self.close()
        fields = self._row(cells)
        self._rows += [Outcome(line, start, fields)] if fields else []
        return []

    def close(self) -> list[Outcome]:
        """The rows, with what only the other rows tell."""
        rows, self._rows = self._rows, []
        clocks = sorted(clock for row in rows if isinstance(clock := row.fields.get("clock"), int))
        usual = clocks[len(clocks) // 2] if len(clocks) >= PEERS_MIN else 0
        low = usual * LOW_SHARE if usual >= BUSY_MHZ and clocks[1] >= usual * LOW_SHARE else 0.0
        full = any(_full_speed(row.fields) for row in rows)
        widths = sorted(width for row in rows if isinstance(width := row.fields.get("link_width"), int))
        usual_width = widths[len(widths) // 2] if len(widths) >= PEERS_MIN else 0
        told = []
        for row in rows:
            more: dict[str, FieldValue] = {}
            clock = row.fields.get("clock")
            if isinstance(clock, int) and clock < low and "slowdown" not in row.fields:
                more["slowdown"] = "clock_below_peers"
            if full and "link_gen" in row.fields and not _full_speed(row.fields):
                more["link_state"] = "below_peers"
            width = row.fields.get("link_width")
            if isinstance(width, int) and width < usual_width and "link_width_max" not in row.fields:
                more |= {"link_state": "below_peers", "link_width_max": usual_width}
            told.append(replace(row, fields={**row.fields, **more}))
        return told

    def _row(self, cells: list[str]) -> dict[str, FieldValue]:
        fields: dict[str, FieldValue] = {}
        slowdowns = []
        for column, cell in zip(self._columns, cells, strict=True):
            number = re.match(r"-?\d{1,12}", cell)
            if column in NUMBERS and number:
                fields[NUMBERS[column]] = int(number[0])
            elif column in TEXTS:
                fields[TEXTS[column]] = cell[:200]
            elif reason := _REASON.fullmatch(column):
                if cell == "Active" and reason[1] in SLOWDOWN_COLUMNS:
                    slowdowns.append(SLOWDOWN_COLUMNS[reason[1]])
                elif re.fullmatch(r"0x[0-9a-fA-F]{1,16}", cell):
                    slowdowns += [name for name in SLOWDOWNS if int(cell, 16) & REASONS[name]]
        if slowdowns:
            fields["slowdown"] = " ".join(slowdowns)
        return fields


def _full_speed(fields: Mapping[str, FieldValue]) -> bool:
    """Whether a GPU's link runs at the generation that it can do (as an idle one's does not)."""
    return "link_gen" in fields and fields["link_gen"] == fields.get("link_gen_max")
