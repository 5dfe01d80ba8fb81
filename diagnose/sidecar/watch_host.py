"""The daemon: watches every job of a host until it is told to stop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from aidiag.collectors.collector import Context, SystemClock
from aidiag.collectors.observation import Event
from aidiag.collectors.records import records_of
from aidiag.diagnose.config import Config
from aidiag.diagnose.job.ledger import Change
from aidiag.diagnose.report.escape import one_line
from aidiag.diagnose.report.model import JobFacts
from aidiag.diagnose.sidecar.assembly import assemble
from aidiag.diagnose.sidecar.ending import leave, on_signals
from aidiag.diagnose.sidecar.job_folders import JobFolders
from aidiag.diagnose.sidecar.snapshot import Snapshot
from aidiag.diagnose.sidecar.writer import Writer

RECORDS_AGE_SECONDS = 5.0
"""How old a list of the records may be in which the folder of a job is looked up."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Places:
    """Where to look beside the usual places."""

    records: tuple[Path, ...] = ()
    logs: tuple[Path, ...] = ()
    job_folder: Path | None = None


class LogOutput:
    """Tells of findings in the daemon's own log."""

    def write(self, snapshot: Snapshot, changes: Sequence[Change], events: Iterable[Event]) -> None:
        """One line a change."""
        for change in changes:
            finding = change.finding
            level = logging.INFO if finding.severity == "info" or change.event == "cleared" else logging.WARNING
            log.log(level, "%s %s: %s", change.event, finding.rule, one_line(finding.summary))


def main(config: Config, places: Places, *, port: int | None, host: str) -> None:
    """Run until SIGTERM or SIGINT. Raises OSError where the port cannot be had: a daemon never moves to another."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    stop = threading.Event()
    on_signals(stop)
    clock = SystemClock()
    folders = JobFolders(
        lambda: [found.record.identity for found in records_of(assembly.context).find(RECORDS_AGE_SECONDS)],
        lambda findings: assembly.sidecar.arrange(findings),
        lambda: assembly.sidecar.links,
        clock,
        port=lambda: assembly.port,
        given=places.job_folder,
    )
    writer = Writer(folders)
    assembly = assemble(
        config,
        lambda node: Context(
            node,
            clock,
            record_folders=places.records or None,
            job_folder=places.job_folder,
            host_folder=None,
            log_paths=places.logs,
        ),
        clock=clock,
        outputs=(LogOutput(), writer),
        job=JobFacts,
        port=config.port if port is None else port,
        exact_port=True,
        host=host,
    )
    log.info("watching %s, http://%s:%d/", assembly.host, config.listen, assembly.port)
    assembly.sidecar.run(stop.is_set)
    writer.close()
    folders.close()
    assembly.close()
    leave()
