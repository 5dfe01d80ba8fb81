"""Finding the records that the trainer shims of this host keep, those in private mounts too."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from aidiag.collectors.collector import Context
from aidiag.collectors.namespaces import Namespaces
from aidiag.collectors.private_folders import PrivateFolders
from aidiag.collectors.record_folders import Folder, ShimFile, usual_folders
from aidiag.trainer_shim.model import Record, RecordError, StepRecord
from aidiag.trainer_shim.owner import Owner
from aidiag.trainer_shim.reader import RecordReader

FILES_CAP = 1024
"""Records that are held open."""
STEPS_KEPT = 512
DEAD_KEPT_SECONDS = 900.0
"""How long the record of an ended process is told where no job was asked for."""
OFF_LIMIT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """A record, whether its process lives (None where that cannot be told from here), and that process's id here."""

    path: str
    owner: Owner
    record: Record
    alive: bool | None
    host_pid: int | None = None


@dataclass(frozen=True, slots=True)
class OffNote:
    """What a shim left that had to switch itself off. Without a rank only the owner says whose it is."""

    owner: Owner
    code: str
    reason: str
    job_id: str
    rank: int | None
    unix: float | None
    host_pid: int | None = None


@dataclass(slots=True)
class _Open:
    file: ShimFile
    reader: RecordReader
    last: Record | None = None
    steps: deque[StepRecord] = field(default_factory=lambda: deque(maxlen=STEPS_KEPT))


class RecordFinder:
    """Finds records again and again. Those that it knows it keeps open, and reads only what is new in them. May be used
    by several threads.

    `folders` are where to look; None means the usual places of the shim (`trainer_shim.folder`), for root those of all
    users, and the same places of processes that live in another mount namespace, through /proc/PID/root. `job` limits
    the records to one job, and `began_unix` to what was there or came since that launch of it: the records of processes
    that were dead before are of an earlier one. A record is taken only from a folder's own owner, and by others than root only
    their own.
    """

    def __init__(
        self,
        folders: Iterable[Path] | None = None,
        *,
        job: str | None = None,
        began_unix: float | None = None,
        proc: str = "/proc",
        clock: Callable[[], float] = time.monotonic,
        unix: Callable[[], float] = time.time,
    ) -> None:
        self._folders = None if folders is None else tuple(map(str, folders))
        self._job, self._began, self._clock, self._unix = job, began_unix, clock, unix
        self._lock = threading.RLock()
        self._found: list[FoundRecord] = []
        self._found_at = float("-inf")
        self._namespaces = Namespaces(proc, clock)
        self._private = PrivateFolders(proc, chosen=os.environ.get("AIDIAG_DIR"), clock=clock)
        self._open: dict[tuple[int, int], _Open] = {}
        self._passed_over: set[tuple[int, int]] = set()

    def find(self, max_age_seconds: float = 0.0) -> list[FoundRecord]:
        """Every record of the job that can be read now, or could at most so long ago; what is damaged or not ready is
        left out.
        """
        with self._lock:
            now = self._clock()
            if not now - self._found_at < max_age_seconds:
                self._found, self._found_at = self._find(), now
            return list(self._found)

    def _find(self) -> list[FoundRecord]:
        present: set[tuple[int, int]] = set()
        for folder in self._look():
            for name, file in folder.files("record"):
                present.add(file.key)
                known = file.key in self._open or file.key in self._passed_over
                if not known and len(self._open) < FILES_CAP:
                    self._take(folder, name, file)
        for key in self._open.keys() - present:
            # What nobody has removed is only out of sight: the mounts of a container go with its last process.
            if self._open[key].reader.removed():
                self._open.pop(key).reader.close()
        self._passed_over &= present
        return [found for key in list(self._open) if (found := self._read(key)) is not None]

    def content(self, found: FoundRecord) -> bytes:
        """The bytes of a record that was found, for a copy, read from the file that is open: its path may lead through
        a container that has ended. Raises RecordError where it is not open any more.
        """
        with self._lock:
            for entry in self._open.values():
                if entry.file.path == found.path:
                    return entry.reader.content()
        raise RecordError("unreadable", f"{found.path} is gone")

    def off_notes(self) -> list[OffNote]:
        """What shims left that switched themselves off and whose processes still live, as far as that can be told."""
        with self._lock:
            return [
                replace(_off_note(folder, name, file), host_pid=self._namespaces.host_pid(file.name.owner))
                for folder in self._look()
                for name, file in folder.files("off")
                if self._namespaces.alive(file.name.owner) is not False
            ]

    def close(self) -> None:
        """Close all records."""
        with self._lock:
            for entry in self._open.values():
                entry.reader.close()
            self._open.clear()
            self._private.close()

    def _look(self) -> Iterator[Folder]:
        """The folders that are there, each closed when the next one is asked for; one that cannot be read is none."""
        for path in usual_folders() if self._folders is None else self._folders:
            try:
                folder = Folder(path)
            except OSError:
                continue
            with closing(folder):
                yield folder
        if self._folders is None:
            for folder in self._private.folders(self._namespaces.private_mounts):
                with closing(folder):
                    yield folder

    def _take(self, folder: Folder, name: str, file: ShimFile) -> None:
        try:
            self._open[file.key] = _Open(file, RecordReader(name, owner_uid=file.uid, dir_fd=folder.fd))
        except RecordError as error:
            if error.code not in ("not_ready", "busy"):
                self._passed_over.add(file.key)

    def _read(self, key: tuple[int, int]) -> FoundRecord | None:
        entry = self._open[key]
        steps = entry.steps
        try:
            # The last step is read again: a second optimizer may have extended it since.
            entry.last = entry.reader.read(steps_after=steps[-1].number - 1 if steps else -1)
        except RecordError:
            if entry.last is None:
                return None
        else:
            if steps and entry.last.steps and entry.last.steps[0].number == steps[-1].number:
                steps.pop()
            steps.extend(entry.last.steps)
        record = replace(entry.last, steps=tuple(steps))
        owner = entry.file.name.owner
        alive = self._namespaces.alive(owner)
        if self._job is not None and record.identity.job_id != self._job:
            self._pass_over(key)
            return None
        if self._began is not None and alive is False and record.state.unix < self._began:
            self._pass_over(key)
            return None
        if self._job is None and alive is False and self._unix() - record.state.unix > DEAD_KEPT_SECONDS:
            self._pass_over(key)
            return None
        return FoundRecord(entry.file.path, owner, record, alive, self._namespaces.host_pid(owner) if alive else None)

    def _pass_over(self, key: tuple[int, int]) -> None:
        self._open.pop(key).reader.close()
        self._passed_over.add(key)


def records_of(context: Context) -> RecordFinder:
    """What finds the records of a context's job: the one that all share, else a new one."""
    return context.records or RecordFinder(context.record_folders, job=context.job, began_unix=context.began_unix)


def newest(found: Iterable[FoundRecord]) -> dict[tuple[str, int], FoundRecord]:
    """The newest incarnation of each rank by (job, rank): a restarted rank leaves the records of the earlier ones."""
    best: dict[tuple[str, int], FoundRecord] = {}
    for one in found:
        identity = one.record.identity
        key = (identity.job_id, identity.rank)
        known = best.get(key)
        if known is None or _age(one) > _age(known):
            best[key] = one
    return best


def _age(found: FoundRecord) -> tuple[bool, float, float]:
    identity = found.record.identity
    return (found.alive is not False, identity.started_unix, identity.attached_unix)


def _off_note(folder: Folder, name: str, file: ShimFile) -> OffNote:
    said: dict[str, object] = {}
    try:
        with open(folder.open_file(name, os.O_RDONLY), "rb") as stream:
            loaded = json.loads(stream.read(OFF_LIMIT_BYTES) or b"{}")
            said = loaded if isinstance(loaded, dict) else {}
    except (OSError, ValueError, RecursionError):
        pass  # the name alone tells the code
    rank, unix, reason, job = said.get("rank"), said.get("unix"), said.get("reason"), said.get("job_id")
    return OffNote(
        file.name.owner,
        file.name.code,
        reason[:500] if isinstance(reason, str) and reason.isprintable() else file.name.code.replace("_", " "),
        job[:128] if isinstance(job, str) and job.isprintable() else "",
        rank if isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < 1 << 20 else None,
        float(unix) if isinstance(unix, int | float) and not isinstance(unix, bool) and 0 <= unix < 1e12 else None,
    )
