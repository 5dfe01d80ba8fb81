"""Finding the records that the trainer shims of this host keep, those in private mounts too."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from aidiag.trainer_shim import owner as owners
from aidiag.trainer_shim.folder import candidates
from aidiag.trainer_shim.model import Record, RecordError
from aidiag.trainer_shim.owner import FileName, Owner
from aidiag.trainer_shim.reader import RecordReader

FILES_CAP = 4096
PROCESSES_CAP = 20_000
PRIVATE_MOUNTS_CAP = 256
SEARCH_SECONDS = 5.0
"""How often processes are searched for private mounts."""
OFF_LIMIT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """A record and whether its process lives (None where that cannot be told from here)."""

    path: str
    owner: Owner
    record: Record
    alive: bool | None


@dataclass(frozen=True, slots=True)
class OffNote:
    """What a shim left that had to switch itself off."""

    owner: Owner
    code: str
    reason: str
    job_id: str
    rank: int | None
    unix: float | None


@dataclass(slots=True)
class _Open:
    name: FileName
    reader: RecordReader
    last: Record | None = None


class RecordFinder:
    """Finds records again and again, and keeps those that it knows open.

    `folders` are where to look; None means the usual places of the shim (`trainer_shim.folder`), for root those of all
    users, and the same places of processes that live in another mount namespace, through /proc/PID/root. `job` limits
    the records to one job. A record is taken only from a folder's own owner (files of other users are refused).
    """

    def __init__(
        self,
        folders: Iterable[Path] | None = None,
        *,
        job: str | None = None,
        proc: str = "/proc",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folders = None if folders is None else tuple(map(str, folders))
        self._job, self._proc, self._clock = job, proc, clock
        self._open: dict[tuple[int, int], _Open] = {}
        self._paths: dict[tuple[int, int], str] = {}
        self._foreign: set[tuple[int, int]] = set()
        self._private: list[str] = []
        self._searched = float("-inf")
        self._here = owners.this_process(proc)

    def find(self) -> list[FoundRecord]:
        """Every record of the job that can be read now; what is damaged or not ready is left out."""
        present: set[tuple[int, int]] = set()
        for folder in self.folders():
            for key, path, name, uid in _files(folder, "record"):
                if len(present) >= FILES_CAP:
                    break
                present.add(key)
                if key not in self._open and key not in self._foreign:
                    self._take(key, path, name, uid)
        for key in self._open.keys() - present:
            self._open.pop(key).reader.close()
            self._paths.pop(key, None)
        self._foreign &= present
        return [found for key in list(self._open) if (found := self._read(key)) is not None]

    def off_notes(self) -> list[OffNote]:
        """What shims left that switched themselves off and whose process still lives."""
        notes = []
        for folder in self.folders():
            for _, path, name, uid in _files(folder, "off"):
                if owners.lives(name.owner, self._here, self._proc) is not False:
                    notes.append(_off_note(path, name, uid))
        return notes

    def folders(self) -> list[str]:
        """The folders that are looked into now."""
        if self._folders is not None:
            return list(self._folders)
        if self._clock() - self._searched >= SEARCH_SECONDS:
            self._searched = self._clock()
            self._private = list(_private_folders(self._proc, self._here))
        return [*_usual_folders(""), *self._private]

    def _take(self, key: tuple[int, int], path: str, name: FileName, uid: int) -> None:
        try:
            self._open[key] = _Open(name, RecordReader(path, owner_uid=uid))
            self._paths[key] = path
        except RecordError as error:
            if error.code not in ("not_ready", "busy"):
                self._foreign.add(key)

    def _read(self, key: tuple[int, int]) -> FoundRecord | None:
        entry = self._open[key]
        try:
            entry.last = entry.reader.read()
        except RecordError:
            if entry.last is None:
                return None
        record = entry.last
        if self._job is not None and record.identity.job_id != self._job:
            entry.reader.close()
            del self._open[key]
            self._foreign.add(key)
            return None
        owner = entry.name.owner
        return FoundRecord(self._paths[key], owner, record, owners.lives(owner, self._here, self._proc))


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


def _usual_folders(root: str) -> Iterator[str]:
    """The shim's usual places below `root`: those of this user, and of all users for root."""
    uid = os.geteuid()
    environ = dict(os.environ) if not root else {}
    yield from (root + path for path in candidates(environ, uid))
    if uid == 0:
        for parent, prefix in (("/run/aidiag/u", ""), ("/dev/shm", "aidiag-")):
            try:
                names = sorted(os.listdir(root + parent))
            except OSError:
                continue
            for name in names:
                number = name.removeprefix(prefix)
                if name.startswith(prefix) and number.isdecimal() and int(number) != uid:
                    yield f"{root}{parent}/{name}"


def _private_folders(proc: str, here: Owner) -> Iterator[str]:
    """The usual places of processes in other mount namespaces, one process for each namespace."""
    try:
        own = os.stat(f"{proc}/self/ns/mnt").st_ino
        names = os.listdir(proc)
    except OSError:
        return
    seen = {own}
    for name in names[:PROCESSES_CAP]:
        if not name.isdecimal() or len(seen) > PRIVATE_MOUNTS_CAP:
            continue
        try:
            namespace = os.stat(f"{proc}/{name}/ns/mnt").st_ino
        except OSError:
            continue
        if namespace not in seen:
            seen.add(namespace)
            yield from _usual_folders(f"{proc}/{name}/root")


def _files(folder: str, kind: str) -> Iterator[tuple[tuple[int, int], str, FileName, int]]:
    """The shim's files of one kind in a folder: identity, path, what the name says, and the folder's owner.

    A folder that others than its owner can write to is passed over: anybody could have put files there.
    """
    try:
        facts = os.stat(folder)
        names = os.listdir(folder)
    except OSError:
        return
    if not stat.S_ISDIR(facts.st_mode) or facts.st_mode & 0o022:
        return
    for name in sorted(names)[:FILES_CAP]:
        parsed = owners.parse_file_name(name)
        if parsed is None or parsed.kind != kind:
            continue
        path = os.path.join(folder, name)
        try:
            file = os.lstat(path)
        except OSError:
            continue
        yield (file.st_dev, file.st_ino), path, parsed, facts.st_uid


def _off_note(path: str, name: FileName, uid: int) -> OffNote:
    said: dict[str, object] = {}
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if stat.S_ISREG(os.fstat(descriptor).st_mode) and os.fstat(descriptor).st_uid == uid:
                loaded = json.loads(file.read(OFF_LIMIT_BYTES) or b"{}")
                said = loaded if isinstance(loaded, dict) else {}
    except (OSError, ValueError, RecursionError):
        pass  # the name alone tells the code
    rank, unix = said.get("rank"), said.get("unix")
    return OffNote(
        name.owner,
        name.code,
        str(said.get("reason") or name.code.replace("_", " "))[:500],
        str(said.get("job_id") or ""),
        rank if isinstance(rank, int) and 0 <= rank < 1 << 20 else None,
        float(unix) if isinstance(unix, int | float) else None,
    )
