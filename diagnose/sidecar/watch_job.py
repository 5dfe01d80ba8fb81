"""The sidecar of one job on one host: watches until the job's runs are over, then writes the report."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from aidiag import __version__
from aidiag.collectors.collector import Clock, Context, SystemClock
from aidiag.diagnose.config import Config
from aidiag.diagnose.job.folder import HostFolder, JobFolder, write_atomically
from aidiag.diagnose.job.gather import write_merged
from aidiag.diagnose.job.records import copy_records
from aidiag.diagnose.job.runs import SidecarFile, is_over, read_runs, write_sidecar
from aidiag.diagnose.report.model import JobFacts, Report, encode
from aidiag.diagnose.sidecar.assembly import Assembly, assemble
from aidiag.diagnose.sidecar.ending import leave, on_signals
from aidiag.diagnose.sidecar.folder_output import FolderOutput

LAST_LOOK_SECONDS = 1.5
"""How long collectors are given to see how the job ended."""
UNSTARTED_SECONDS = 60.0
"""A folder in which no run has been seen for so long is not going to have one."""

log = logging.getLogger(__name__)


class JobWatch:
    """One sidecar from start to report. `folder` is this host's part of the job folder."""

    def __init__(
        self,
        job: str,
        folder: HostFolder,
        config: Config,
        *,
        port: int | None,
        clock: Clock | None = None,
        broken_settings: Sequence[str] = (),
    ) -> None:
        self._broken_settings = broken_settings
        self._job, self._folder, self._config = job, folder, config
        self._clock = clock or SystemClock()
        self._wanted_port = port
        self._started = self._clock.unix()
        self._last_run_seen = self._clock.monotonic()
        self._runs_facts = JobFacts(id=job)

    def run(self, stop: threading.Event) -> Report:
        """Watch until the runs are over or `stop` is set; returns the report that was written."""
        assembly = self._assemble()
        try:
            self._announce(assembly)
            assembly.sidecar.run(done=lambda: stop.is_set() or self._over())
            if not stop.is_set():
                end = self._clock.monotonic() + LAST_LOOK_SECONDS
                while self._clock.monotonic() < end:
                    stop.wait(0.25)
                    assembly.sidecar.tick()
            return self._finish(assembly)
        finally:
            assembly.close()

    def _assemble(self) -> Assembly:
        output = FolderOutput(self._folder, self._job, self._clock, lambda: assembly.port)
        self._output = output
        assembly = assemble(
            self._config,
            lambda node: Context(
                node,
                self._clock,
                job=self._job,
                job_folder=self._folder.path.parent,
                host_folder=self._folder.path,
            ),
            clock=self._clock,
            outputs=(output,),
            job=lambda: self._runs_facts,
            port=self._wanted_port if self._wanted_port is not None else self._config.port,
            exact_port=False,
            broken_settings=self._broken_settings,
        )
        return assembly

    def _announce(self, assembly: Assembly, state: str = "running") -> None:
        listen = self._config.listen
        address = f"[{listen}]" if ":" in listen else listen
        file = SidecarFile(
            pid=os.getpid(),
            host=assembly.host,
            job=self._job,
            started=self._started,
            port=assembly.port or None,
            url=f"http://{address}:{assembly.port}/" if assembly.port else None,
            state="finished" if state == "finished" else "running",
            finished=self._clock.unix() if state == "finished" else None,
        )
        try:
            write_sidecar(self._folder, file)
        except OSError as problem:
            log.error("sidecar.json: %s", problem)

    def _over(self) -> bool:
        """Whether no run of this job is at work on this host any more."""
        runs = read_runs(self._folder)
        now = self._clock.monotonic()
        statuses = [run.exit_status for run in runs if run.exit_status is not None]
        self._runs_facts = JobFacts(
            id=self._job,
            hosts=(runs[0].host,) if runs else (),
            command=" ".join(runs[0].command) if runs else "",
            exit_status=next((status for status in statuses if status), statuses[0] if statuses else None),
        )
        if any(not is_over(run, self._clock.unix()) for run in runs):
            self._last_run_seen = now
            return False
        if runs:
            return True
        return now - self._last_run_seen > UNSTARTED_SECONDS

    def _finish(self, assembly: Assembly) -> Report:
        sidecar = assembly.sidecar
        unix = self._clock.unix()
        snapshot = sidecar.tick(final=True)
        copy_records(assembly.context, self._folder.records)
        roots, consequences = sidecar.arrange(self._output.anchor(sidecar.every_finding(), unix))
        report = Report(
            version=__version__,
            made_at=unix,
            job=JobFacts(
                self._job,
                (assembly.host,),
                snapshot.world_size(),
                self._runs_facts.command,
                self._runs_facts.exit_status,
            ),
            findings=tuple(roots),
            consequences=tuple(consequences),
            unknown=snapshot.unknown,
            ranks=tuple(row for row in snapshot.ranks if row.host == assembly.host),
        )
        try:
            write_atomically(self._folder.report, encode(report))
            self._output.share(snapshot, sidecar.events, ended=True)
            report = write_merged(JobFolder(self._folder.path.parent), sidecar.links, sidecar.language)
        except OSError as problem:
            log.error("report: %s", problem)
        self._announce(assembly, "finished")
        return report


def main(job: str, host_folder: Path, config: Config, *, port: int | None, broken_settings: Sequence[str] = ()) -> None:
    """Run a sidecar to its end; SIGTERM and SIGINT end it with a report, soon even where something hangs."""
    stop = threading.Event()
    on_signals(stop)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.Formatter.converter = time.gmtime
    JobWatch(job, HostFolder(host_folder), config, port=port, broken_settings=broken_settings).run(stop)
    leave()
