"""Writing off the main loop: a folder on a file system that does not answer holds up its files, never the verdict."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable, Sequence

from aidiag.collectors.observation import Event
from aidiag.diagnose.job.ledger import Change
from aidiag.diagnose.sidecar.loop import Output
from aidiag.diagnose.sidecar.snapshot import Snapshot

CHANGES_KEPT = 10_000
"""While nothing can be written. The oldest go first; the report at the end knows all findings."""

log = logging.getLogger(__name__)


class Writer:
    """An output that hands on to another one in a thread of its own: every change, and of snapshots the latest."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._work = threading.Condition()
        self._changes: deque[Change] = deque(maxlen=CHANGES_KEPT)
        self._latest: tuple[Snapshot, tuple[Event, ...]] | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def write(self, snapshot: Snapshot, changes: Sequence[Change], events: Iterable[Event]) -> None:
        """Take a tick's verdict and return at once."""
        with self._work:
            self._changes.extend(changes)
            self._latest = (snapshot, tuple(events))
            self._work.notify()

    def close(self) -> None:
        """Return when everything taken has been written, however long that takes; the output is then the caller's."""
        with self._work:
            self._closing = True
            self._work.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._work:
                self._work.wait_for(lambda: self._latest is not None or self._closing)
                if self._latest is None:
                    return
                (snapshot, events), changes = self._latest, list(self._changes)
                self._latest = None
                self._changes.clear()
            try:
                self._output.write(snapshot, changes, events)
            except Exception:
                log.exception("an output failed")
