"""What the sidecar leaves in the job folder: findings as they come and go, the state for its peers, and the report."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence

import msgspec

from aidiag.collectors.collector import Clock
from aidiag.collectors.observation import Event, Sample
from aidiag.collectors.peers import encode_state
from aidiag.diagnose.job.folder import HostFolder, open_to_append, write_atomically
from aidiag.diagnose.job.ledger import Change
from aidiag.diagnose.sidecar.evidence import EvidenceBook
from aidiag.diagnose.sidecar.snapshot import Snapshot
from aidiag.rules.finding import Finding

STATE_SECONDS = 2.0
FINDINGS_LIMIT_BYTES = 8 << 20
SHARED_KINDS = frozenset({"rank", "job", "nic", "port", "host"})
SHARED_SIGNALS_LEFT_OUT = ("collector_", "log_", "host_filesystem_", "job_ranks_")
"""Signals that only this host's own rules need, or that count what this host has of the job."""


class FolderOutput:
    """Writes into `<job folder>/<host>/`. A full or broken disk costs the files, never the sidecar."""

    def __init__(self, folder: HostFolder, job: str, clock: Clock, port: Callable[[], int] = lambda: 0) -> None:
        self._folder, self._job, self._clock, self._port = folder, job, clock, port
        self._book = EvidenceBook(folder.path)
        self._state_written = -STATE_SECONDS
        self._findings_bytes = 0
        self._attached_told = False
        self._explained: set[str] = set()

    def write(self, snapshot: Snapshot, changes: Sequence[Change], events: Iterable[Event]) -> None:
        """Append what changed, and every STATE_SECONDS replace the state that peers read."""
        explained = {finding.id: finding for finding in snapshot.consequences}
        for change in changes:
            finding = self._book.anchor(explained.get(change.finding.id, change.finding), snapshot.unix)
            self._append({"event": change.event, "unix": snapshot.unix, "finding": finding})
        told = {change.finding.id for change in changes}
        for finding_id in explained.keys() - self._explained - told:
            finding = self._book.anchor(explained[finding_id], snapshot.unix)
            self._append({"event": "explained", "unix": snapshot.unix, "finding": finding})
        self._explained = set(explained)
        if not self._attached_told and (text := self._attached(snapshot)):
            self._attached_told = True
            self._append({"event": "note", "unix": snapshot.unix, "text": text})
        if snapshot.monotonic - self._state_written >= STATE_SECONDS:
            self._state_written = snapshot.monotonic
            self.share(snapshot, events)

    def share(self, snapshot: Snapshot, events: Iterable[Event], *, ended: bool = False) -> None:
        """Replace the state that peers read."""
        shared = (sample for sample in snapshot.samples if _is_shared(sample))
        state = encode_state(
            snapshot.host, self._job, self._clock, shared, events, port=self._port(), ended=ended
        )  # fmt: skip
        with contextlib.suppress(OSError):
            write_atomically(self._folder.state, state)

    def anchor(self, findings: Iterable[Finding], unix: float) -> list[Finding]:
        """The findings with their measurements written down in evidence.txt."""
        return [self._book.anchor(finding, unix) for finding in findings]

    @staticmethod
    def _attached(snapshot: Snapshot) -> str:
        """How many of this host's ranks the shim has attached in, once that is all of them."""
        ranks = [s for s in snapshot.samples if s.signal == "rank_shim_attached" and s.subject.host == snapshot.host]
        attached = sum(sample.value == 1.0 for sample in ranks)
        expected = sum(sample.signal == "rank_expected" for sample in snapshot.samples) or len(ranks)
        return f"attached {attached} of {expected} ranks on {snapshot.host}" if 0 < expected == attached else ""

    def _append(self, entry: dict[str, object]) -> None:
        line = msgspec.json.encode(entry) + b"\n"
        if self._findings_bytes + len(line) > FINDINGS_LIMIT_BYTES:
            return
        self._findings_bytes += len(line)
        with contextlib.suppress(OSError), open(open_to_append(self._folder.findings), "ab") as stream:
            stream.write(line)


def _is_shared(sample: Sample) -> bool:
    return sample.subject.kind in SHARED_KINDS and not sample.signal.startswith(SHARED_SIGNALS_LEFT_OUT)
