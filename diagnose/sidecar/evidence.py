"""Writing measured evidence down, so that every piece of evidence of a report stands on a line of a file."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from aidiag.collectors.bounded import read_bounded
from aidiag.diagnose.job.folder import open_to_append
from aidiag.diagnose.report.escape import one_line
from aidiag.rules.finding import Evidence, Finding

FILE = "evidence.txt"
LIMIT_BYTES = 1 << 20

log = logging.getLogger(__name__)


class EvidenceBook:
    """Appends measurements to `<host folder>/evidence.txt` and turns their evidence into places in that file.

    Where the file cannot be written or is full, evidence stays as it was measured.
    """

    def __init__(self, host_folder: Path) -> None:
        self._path = host_folder / FILE
        self._source = f"{host_folder.name}/{FILE}"
        self._lines = 0
        self._bytes = LIMIT_BYTES  # full, where nobody knows how many lines are there
        self._known: dict[tuple[str, str, str], Evidence] = {}
        try:
            present = read_bounded(self._path, LIMIT_BYTES)
            self._lines, self._bytes = present.count(b"\n"), len(present)
        except FileNotFoundError:
            self._bytes = 0
        except OSError as problem:
            log.warning("%s: %s; evidence is not written down", self._path, problem)

    def anchor(self, finding: Finding, unix: float) -> Finding:
        """The finding with each measurement written down at `unix` and its evidence pointing there."""
        if all(item.line is not None for item in finding.evidence):
            return finding
        return replace(finding, evidence=tuple(self._place(finding.id, item, unix) for item in finding.evidence))

    def _place(self, finding_id: str, item: Evidence, unix: float) -> Evidence:
        if item.line is not None:
            return item
        key = (finding_id, item.source, item.text)
        known = self._known.get(key)
        if known is not None:
            return known
        text = one_line(f"{item.source}: {item.text}").replace("\t", " ")
        stamp = datetime.fromtimestamp(unix, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        line = f"{stamp} {text}\n".encode("utf-8", "backslashreplace")
        if self._bytes + len(line) > LIMIT_BYTES:
            return item
        try:
            with open(open_to_append(self._path), "ab") as stream:
                stream.write(line)
        except OSError:
            return item
        self._lines += 1
        self._bytes += len(line)
        placed = Evidence(self._source, self._lines, text)
        self._known[key] = placed
        return placed
