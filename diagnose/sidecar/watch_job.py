"""The sidecar of one job on one host: watches until the job's runs are over, then writes the report.

Until then its main thread never touches the job folder, which may lie on a file system that stops answering: it is read
and written by threads (RunsSeen, Writer, the log's), so that judging and alerting go on.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from aidiag import __version__
from aidiag.collectors.collector import Clock, Context, SystemClock
from aidiag.diagnose.config import Config
from aidiag.diagnose.incident import size_bytes
from aidiag.diagnose.job.folder import HostFolder, JobFolder, write_atomically
from aidiag.diagnose.job.gather import write_merged
from aidiag.diagnose.job.logs import logs_of
from aidiag.diagnose.job.records import copy_records
from aidiag.diagnose.job.runs import SidecarFile, read_runs, write_sidecar
from aidiag.diagnose.report.merge import merge
from aidiag.diagnose.report.model import JobFacts, Report, encode
from aidiag.diagnose.sidecar.assembly import Assembly, assemble
from aidiag.diagnose.sidecar.ending import leave, log_aside, on_signals
from aidiag.diagnose.sidecar.folder_output import FolderOutput
from aidiag.diagnose.sidecar.runs_seen import RunsSeen
from aidiag.diagnose.sidecar.writer import Writer

LAST_LOOK_SECONDS = 1.5
"""How long collectors are given to see how the job ended."""

READ_AGAIN_BYTES = 64 << 20
"""A job that ends at its start is over before anything was seen of it: what it printed is read at its end, unless it is
much. `aidiag diagnose` reads more.
"""

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
        self._runs = RunsSeen(job, folder, self._clock)

    def run(self, stop: threading.Event) -> Report:
        """Watch until the runs are over or `stop` is set; returns the report that was written."""
        assembly = self._assemble()
        try:
            self._announce(assembly)
            self._runs.start(at_end=assembly.sidecar.stop)
            assembly.sidecar.run(done=stop.is_set)
            if not stop.is_set():
                end = self._clock.monotonic() + LAST_LOOK_SECONDS
                while self._clock.monotonic() < end:
                    stop.wait(0.25)
                    assembly.sidecar.tick()
            return self._finish(assembly)
        finally:
            self._runs.stop()
            assembly.close()

    def _assemble(self) -> Assembly:
        output = FolderOutput(self._folder, self._job, self._clock, lambda: assembly.port)
        self._output, self._writer = output, Writer(output)
        began = min((run.started for run in read_runs(self._folder)), default=None)
        assembly = assemble(
            self._config,
            lambda node: Context(
                node,
                self._clock,
                job=self._job,
                job_folder=self._folder.path.parent,
                host_folder=self._folder.path,
                began_unix=began,
            ),
            clock=self._clock,
            outputs=(self._writer,),
            job=lambda: self._runs.facts,
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

    def _finish(self, assembly: Assembly) -> Report:
        sidecar = assembly.sidecar
        unix = self._clock.unix()
        snapshot = sidecar.tick(final=True)
        self._writer.close()
        copy_records(assembly.context, self._folder.records)
        roots, consequences = sidecar.arrange(self._output.anchor(sidecar.every_finding(), unix))
        report = Report(
            version=__version__,
            made_at=unix,
            job=JobFacts(
                self._job,
                (assembly.host,),
                snapshot.world_size(),
                self._runs.facts.command,
                self._runs.facts.exit_status,
            ),
            findings=tuple(roots),
            consequences=tuple(consequences),
            unknown=snapshot.unknown,
            ranks=tuple(row for row in snapshot.ranks if row.host == assembly.host),
        )
        try:
            write_atomically(self._folder.report, encode(report))
            logs = logs_of(self._folder) if report.job.exit_status else []
            if logs and size_bytes(logs) <= READ_AGAIN_BYTES:
                own = replace(sidecar.judge_logs(logs, self._job), ranks=(), unknown=())
                report = merge([report, own], sidecar.links, sidecar.language)
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
    listener = log_aside()
    JobWatch(job, HostFolder(host_folder), config, port=port, broken_settings=broken_settings).run(stop)
    leave(listener.stop)
