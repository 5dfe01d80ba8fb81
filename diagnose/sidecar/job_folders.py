"""The job folders that a daemon fills: those that `aidiag env` has made for the jobs in its view.

It fills only folders of its own user, and none in which an `aidiag run` is at work: that one has a sidecar of its own.
"""

from __future__ import annotations

import logging
import os
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from aidiag import __version__
from aidiag.collectors.collector import Clock
from aidiag.collectors.observation import Event, Labels, Sample
from aidiag.collectors.subject import Subject
from aidiag.diagnose.job.earlier import set_aside
from aidiag.diagnose.job.folder import HostFolder, JobFolder, job_folder, make, write_atomically
from aidiag.diagnose.job.gather import read_findings, write_merged
from aidiag.diagnose.job.ledger import Change
from aidiag.diagnose.job.runs import runs_at_work
from aidiag.diagnose.report.model import JobFacts, RankRow, Report, encode
from aidiag.diagnose.report.ranks import rank_rows
from aidiag.diagnose.sidecar.folder_output import FolderOutput
from aidiag.diagnose.sidecar.snapshot import Snapshot
from aidiag.rules.causes import Links
from aidiag.rules.explanations import job_of
from aidiag.rules.finding import Finding
from aidiag.trainer_shim.model import Identity

LOOK_EVERY_SECONDS = 15.0
"""How often a folder is looked for, and an unchanged report is renewed."""
ENDED = frozenset({"finished", "failed", "killed", "gone"})

Arrange = Callable[[Iterable[Finding]], tuple[list[Finding], list[Finding]]]

log = logging.getLogger(__name__)


class JobFolders:
    """An output for a daemon; for the thread of a Writer, since folders may lie where nothing answers.

    `identities` tells who the trainers in view are, `arrange` sets a job's findings in order by `links`. `given` is a job
    folder that the operator has named.
    """

    def __init__(
        self,
        identities: Callable[[], Iterable[Identity]],
        arrange: Arrange,
        links: Callable[[], Mapping[str, Links]],
        clock: Clock,
        *,
        port: Callable[[], int] = lambda: 0,
        given: Path | None = None,
    ) -> None:
        self._identities, self._arrange, self._links = identities, arrange, links
        self._clock, self._port, self._given = clock, port, given
        self._parts: dict[str, _Part] = {}
        self._look_at: dict[str, float] = {}

    def write(self, snapshot: Snapshot, changes: Sequence[Change], events: Iterable[Event]) -> None:
        """Bring the folder of each job in view up to date."""
        jobs = {sample.subject.job for sample in snapshot.samples if sample.subject.kind == "rank"} - {""}
        for gone in self._parts.keys() - jobs:
            self._parts.pop(gone).end(self._links())
        self._look_at = {job: at for job, at in self._look_at.items() if job in jobs}
        newest = tuple(events)
        for job in jobs:
            own = _of_job(snapshot, job)
            part = self._parts.get(job)
            if part is None:
                part = self._found(job, own)
                told = [Change("raised", finding) for finding in (*own.findings, *own.consequences)]
            else:
                told = [change for change in changes if job_of(change.finding) in ("", job)]
            if part is not None:
                part.write(own, told, [event for event in newest if _is_about(event.subject, job)])

    def close(self) -> None:
        """The daemon ends: say so to the sidecars of other hosts."""
        for part in self._parts.values():
            part.end(self._links())

    def _found(self, job: str, snapshot: Snapshot) -> _Part | None:
        if snapshot.monotonic < self._look_at.get(job, 0.0):
            return None
        self._look_at[job] = snapshot.monotonic + LOOK_EVERY_SECONDS
        identities = [identity for identity in self._identities() if identity.job_id == job]
        places = [identity.env["AIDIAG_OUT"] for identity in identities if identity.env.get("AIDIAG_OUT")]
        folders = [job_folder(Path(place), job) for place in places]
        if self._given is not None and self._given.name == job_folder(Path(), job).path.name:
            folders.insert(0, JobFolder(self._given))
        for folder in dict.fromkeys(folders):
            with suppress(OSError):
                if _is_ours(folder.path) and not runs_at_work(folder, snapshot.host, snapshot.unix):
                    _, host = make(folder.path.parent, job, snapshot.host)
                    began = min((identity.started_unix for identity in identities), default=snapshot.unix)
                    set_aside(folder, host, snapshot.unix, before=began)
                    output = FolderOutput(host, job, self._clock, self._port)
                    self._parts[job] = _Part(folder, host, job, output, self._arrange)
                    log.info("job %s: findings go into %s", job, host.path)
                    return self._parts[job]
        return None


class _Part:
    """This host's part of one job folder. What an earlier daemon has found of the job counts."""

    def __init__(self, folder: JobFolder, host: HostFolder, job: str, output: FolderOutput, arrange: Arrange) -> None:
        self._folder, self._host, self._job, self._output, self._arrange = folder, host, job, output, arrange
        self._known = {finding.id: finding for finding in read_findings(host)}
        self._told: object = None
        self._renew_at = 0.0
        self._last: tuple[Snapshot, list[Event]] | None = None

    def write(self, snapshot: Snapshot, changes: Sequence[Change], events: list[Event]) -> None:
        """Take a tick's verdict on the job."""
        self._last = (snapshot, events)
        self._output.write(snapshot, changes, events)
        for finding in (*snapshot.findings, *snapshot.consequences):
            self._known[finding.id] = replace(finding, explains=(), explained_by=None)
        told = (
            [(finding.id, finding.severity) for finding in self._known.values()],
            [(row.rank, row.state) for row in snapshot.ranks],
        )
        if told != self._told or snapshot.monotonic >= self._renew_at:
            self._told, self._renew_at = told, snapshot.monotonic + LOOK_EVERY_SECONDS
            with suppress(OSError):
                write_atomically(self._host.report, encode(self._report(snapshot)))

    def end(self, links: Mapping[str, Links]) -> None:
        """The job, or the daemon, is over."""
        if self._last is None:
            return
        snapshot, events = self._last
        self._output.share(snapshot, events, ended=True)
        with suppress(OSError):
            write_atomically(self._host.report, encode(self._report(snapshot)))
            write_merged(self._folder, links)

    def _report(self, snapshot: Snapshot) -> Report:
        roots, consequences = self._arrange(self._output.anchor(self._known.values(), snapshot.unix))
        return Report(
            version=__version__,
            made_at=snapshot.unix,
            job=JobFacts(self._job, (snapshot.host,), snapshot.world_size()),
            findings=tuple(roots),
            consequences=tuple(consequences),
            unknown=snapshot.unknown,
            ranks=snapshot.ranks,
        )


def _of_job(snapshot: Snapshot, job: str) -> Snapshot:
    """What a daemon's snapshot says of one job and of the host below it."""
    samples = tuple(sample for sample in snapshot.samples if _is_about(sample.subject, job))
    return replace(
        snapshot,
        samples=samples,
        findings=tuple(finding for finding in snapshot.findings if job_of(finding) in ("", job)),
        consequences=tuple(finding for finding in snapshot.consequences if job_of(finding) in ("", job)),
        ranks=_rows(samples, snapshot.host),
        job=JobFacts(id=job),
    )


def _is_about(subject: Subject | None, job: str) -> bool:
    return subject is None or subject.job in ("", job)


def _rows(samples: Iterable[Sample], host: str) -> tuple[RankRow, ...]:
    ranks: defaultdict[Subject, dict[tuple[str, Labels], Sample]] = defaultdict(dict)
    for sample in samples:
        if sample.subject.kind == "rank" and sample.subject.host == host:
            ranks[sample.subject][(sample.signal, sample.labels)] = sample
    return rank_rows(ranks)


def _is_ours(path: Path) -> bool:
    """Whether a folder is there, is no link and belongs to our user."""
    facts = path.lstat()
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid()
