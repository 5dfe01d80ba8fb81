"""Which runs of a job are at work on this host, looked up off the main loop: their files may lie on a shared folder."""

from __future__ import annotations

import threading
from collections.abc import Callable

from aidiag.collectors.collector import Clock
from aidiag.diagnose.job.folder import HostFolder
from aidiag.diagnose.job.runs import is_over, read_runs
from aidiag.diagnose.report.model import JobFacts

LOOK_EVERY_SECONDS = 1.0
UNSTARTED_SECONDS = 60.0
"""A folder in which no run has been seen for so long is not going to have one."""


class RunsSeen:
    """Reads the run files of a host folder again and again, in a thread of its own.

    `facts` is what they tell of the job, `over` whether no run is at work any more. While the folder does not answer
    both stay as they were.
    """

    def __init__(self, job: str, folder: HostFolder, clock: Clock) -> None:
        self.facts = JobFacts(id=job)
        self.over = False
        self._job, self._folder, self._clock = job, folder, clock
        self._last_seen = clock.monotonic()
        self._stop = threading.Event()

    def start(self, at_end: Callable[[], None]) -> None:
        """Begin to look; `at_end` is called once, when all runs are over."""

        def watch() -> None:
            while not self._stop.is_set():
                self.look()
                if self.over:
                    at_end()
                    return
                self._stop.wait(LOOK_EVERY_SECONDS)

        threading.Thread(target=watch, name="runs", daemon=True).start()

    def stop(self) -> None:
        """Look no more; a look that hangs is not waited for."""
        self._stop.set()

    def look(self) -> None:
        """One look at the run files."""
        runs = read_runs(self._folder)
        now = self._clock.monotonic()
        statuses = [run.exit_status for run in runs if run.exit_status is not None]
        self.facts = JobFacts(
            id=self._job,
            hosts=(runs[0].host,) if runs else (),
            command=" ".join(runs[0].command) if runs else "",
            exit_status=next((status for status in statuses if status), statuses[0] if statuses else None),
        )
        if any(not is_over(run, self._clock.unix()) for run in runs):
            self._last_seen = now
        else:
            self.over = bool(runs) or now - self._last_seen > UNSTARTED_SECONDS
