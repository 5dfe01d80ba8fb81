"""The job folder: names, creation, atomic writes and locks.

    aidiag-<job id>/               JobFolder
      report.json                  the merged report
      <host>/                      HostFolder
        run-<pid>.json             one for each `aidiag run` (job.runs)
        stdout-<pid>.log ...       what the command printed (run.capture)
        nccl.<host>.<pid>.log      written by NCCL itself
        findings.ndjson evidence.txt state.json report.json records/
        sidecar.json sidecar.lock sidecar.log speaker.lock start.lock
        earlier-<unix time>/       what an earlier job of the same id left

The folder may lie on a file system that several hosts share, that is full, read-only or does not answer, and its
names may be made by others: every open refuses links, every read is bounded, every whole file is replaced by rename.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aidiag.collectors.run_files import name_of

PREFIX = "aidiag-"
NAME_LIMIT = 80

FOLDER_MODE = 0o775
"""Cut by the user's umask, as for any output of the job: who shares a group's folder by umask shares this one."""


class FolderError(OSError):
    """A job folder cannot be used. The message names the folder and the reason."""


@dataclass(frozen=True, slots=True)
class HostFolder:
    """One host's part of a job folder."""

    path: Path

    @property
    def findings(self) -> Path:
        """One line for each finding raised, changed for the worse, explained by another or cleared, and for notes."""
        return self.path / "findings.ndjson"

    @property
    def evidence(self) -> Path:
        """Measurements that findings point at, one a line."""
        return self.path / "evidence.txt"

    @property
    def state(self) -> Path:
        """The live state for the sidecars of other hosts."""
        return self.path / "state.json"

    @property
    def report(self) -> Path:
        """This host's report."""
        return self.path / "report.json"

    @property
    def sidecar(self) -> Path:
        """What the sidecar says of itself (job.runs.SidecarFile)."""
        return self.path / "sidecar.json"

    @property
    def sidecar_lock(self) -> Path:
        """Held (flock) by the one sidecar of this host and job for as long as it lives."""
        return self.path / "sidecar.lock"

    @property
    def sidecar_log(self) -> Path:
        """What the sidecar prints."""
        return self.path / "sidecar.log"

    @property
    def speaker_lock(self) -> Path:
        """Held (flock) by the one run that prints this host's findings; holds how far it has read."""
        return self.path / "speaker.lock"

    @property
    def start_lock(self) -> Path:
        """Held (flock) by a run while it takes its place here."""
        return self.path / "start.lock"

    @property
    def records(self) -> Path:
        """Copies of the shim's records."""
        return self.path / "records"

    def run(self, key: str) -> Path:
        """The file of one `aidiag run`; `key` is its process id, with a number behind where two containers share it."""
        return self.path / name_of(key)

    def capture(self, stream: str, key: str) -> Path:
        """What the command of a run printed on `stream` (stdout or stderr)."""
        return self.path / f"{stream}-{key}.log"

    @property
    def nccl_pattern(self) -> str:
        """The value for NCCL_DEBUG_FILE: NCCL puts in %h and %p, and reads %% as %."""
        return str(self.path).replace("%", "%%") + "/nccl.%h.%p.log"


@dataclass(frozen=True, slots=True)
class JobFolder:
    """The folder of one job."""

    path: Path

    @property
    def report(self) -> Path:
        """The report of the whole job."""
        return self.path / "report.json"

    def host(self, name: str) -> HostFolder:
        """One host's part."""
        return HostFolder(self.path / path_component(name))

    def hosts(self) -> list[HostFolder]:
        """The parts of all hosts that have one. Raises OSError where the folder cannot be listed."""
        with os.scandir(self.path) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        return [HostFolder(self.path / name) for name in names if not name.startswith(".")]


def path_component(name: str) -> str:
    """A job id or host name as one safe path component.

    Harmless names stay as they are. From others every strange byte becomes `_`, long ones are cut, and a piece of
    their hash keeps two different names apart.
    """
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:NAME_LIMIT].lstrip(".-")
    if safe == name and name:
        return name
    digest = hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:8]
    return f"{safe[: NAME_LIMIT - 9]}-{digest}".lstrip("-")


def places(out: Path | None, environ: Mapping[str, str], *, start: Path | None = None) -> list[Path]:
    """Where a job folder may be made, best first: the given place, else $AIDIAG_OUT, else the working directory;
    and behind it the user's state folder, for a working directory that cannot be written.
    """
    chosen = out or (Path(environ["AIDIAG_OUT"]) if environ.get("AIDIAG_OUT") else Path())
    start = start or Path.cwd()
    found = [start / chosen]
    state = environ.get("XDG_STATE_HOME") or (f"{environ['HOME']}/.local/state" if environ.get("HOME") else "")
    if state.startswith("/"):
        found.append(Path(state) / "aidiag")
    return found


def job_folder(out: Path, job: str) -> JobFolder:
    """The folder of a job below `out`; touches nothing."""
    return JobFolder(out / (PREFIX + path_component(job)))


def make(out: Path, job: str, host: str) -> tuple[JobFolder, HostFolder]:
    """Make the folders of a job and of this host in it, or take those that are there.

    Raises FolderError where they cannot be written, are links, or were put there by another user in a place where
    anybody may write.
    """
    folder = job_folder(out, job)
    part = folder.host(host)
    try:
        out.mkdir(parents=True, exist_ok=True)
        for path in (folder.path, part.path):
            _make_one(path)
        if not os.access(part.path, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(part.path))
    except FolderError:
        raise
    except OSError as problem:
        raise FolderError(f"{problem.filename or part.path}: {problem.strerror or problem}") from problem
    return folder, part


def _make_one(path: Path) -> None:
    try:
        path.mkdir(mode=FOLDER_MODE)
        return
    except FileExistsError:
        facts = path.lstat()
    if not stat.S_ISDIR(facts.st_mode):
        raise FolderError(f"{path}: exists and is not a folder")
    parent = path.parent.stat()
    if facts.st_uid != os.geteuid() and parent.st_mode & stat.S_IWOTH:
        raise FolderError(f"{path}: belongs to user {facts.st_uid}, in a folder where anybody may write")


def open_to_append(path: Path) -> int:
    """A descriptor that appends to a plain file, which is made where it is not there; it never waits for a reader.
    Raises OSError for links, pipes and devices.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(path, flags, 0o664)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a plain file", str(path))
    return fd


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a whole file: readers see the old or the new content, never a part. Raises OSError; the old file
    then stands.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o664)
        with open(fd, "wb") as file:
            file.write(data)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
