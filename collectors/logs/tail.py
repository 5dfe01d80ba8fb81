"""Following a file by polling, through rotation, truncation, replacement and deletion.

Polling is what works on NFS, Lustre and overlay file systems, where no event tells of writes by other hosts. A file is known by
device and inode. The fingerprint of its first bytes is only a check that it still is what it was: eight ranks may well
write files that begin alike.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from aidiag.collectors.logs.files import RefusedError, open_regular

FINGERPRINT_BYTES = 256
BEFORE_BYTES = 64
CHUNK_BYTES = 96 << 10
TURN_BYTES = 8 << 20
"""Read at most this much of a file in one turn."""

LAG_BYTES = 64 << 20
"""What lies further back is skipped, so that the tail never lags without bound."""

DRAIN_SECONDS = 60.0
"""A file that lost its name is read on for so long, since its writer may still have it open."""

SIBLINGS = 1_000


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes that were read at `offset`. `restarted`: the file begins anew, what came before is gone from it.

    `skipped_bytes` were left out before them; `hole_bytes` of the file before them hold no data (and belong to the line).
    """

    data: bytes
    offset: int
    restarted: bool = False
    skipped_bytes: int = 0
    hole_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a file has been read, to go on when it has been closed for an error: the start of a line and its number (None: not known)."""

    path: str
    device: int
    inode: int
    fingerprint: str
    offset: int
    line: int | None
    reported: tuple[str, ...] = ()


class OpenFile:
    """One inode that is being read."""

    def __init__(self, path: Path, descriptor: int) -> None:
        found = os.fstat(descriptor)
        self.path = path
        self.key = (found.st_dev, found.st_ino)
        self.offset = 0
        self.mark: Mark | None = None
        """Where reading went on after an error, until the first chunk."""
        self.changed_unix = found.st_mtime
        """When it was last written to, as far as it has been read."""
        self.at_end = False
        self._descriptor = descriptor
        self._head = b""
        self._before = b""

    @property
    def fingerprint(self) -> str:
        """The first bytes, as far as they were there."""
        return self._head.hex()

    def resume(self, mark: Mark) -> bool:
        """Go on at a mark; False when the file is not the one that was marked."""
        head = bytes.fromhex(mark.fingerprint)
        same = self.key == (mark.device, mark.inode) and os.fstat(self._descriptor).st_size >= mark.offset
        if not same or os.pread(self._descriptor, len(head), 0) != head:
            return False
        self._head, self.offset, self.mark = head, mark.offset, mark
        return True

    def read(self, budget: int) -> Iterator[Chunk]:
        """What has been added, up to `budget` bytes. Raises OSError."""
        found = os.fstat(self._descriptor)
        restarted = found.st_size < self.offset or not self._is_unchanged()
        if restarted:
            self.offset, self._head, self._before = 0, b"", b""
        if len(self._head) < FINGERPRINT_BYTES:
            self._head = os.pread(self._descriptor, FINGERPRINT_BYTES, 0)
        hole = self._over_hole(found)
        skipped = 0
        behind = found.st_size - self.offset
        if behind > LAG_BYTES:
            skipped = behind - TURN_BYTES
            self.offset += skipped
        if skipped or hole:
            self._before = b""
        while budget > 0:
            data = os.pread(self._descriptor, min(CHUNK_BYTES, budget), self.offset)
            self.at_end = not data
            if data:
                self.changed_unix = os.fstat(self._descriptor).st_mtime
            if data or restarted or skipped or hole:
                yield Chunk(data, self.offset, restarted, skipped, hole)
            if not data:
                return
            restarted, skipped, hole = False, 0, 0
            self.offset += len(data)
            budget -= len(data)
            self._before = os.pread(
                self._descriptor, min(BEFORE_BYTES, self.offset), max(0, self.offset - BEFORE_BYTES)
            )
        self.at_end = False

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)

    def _is_unchanged(self) -> bool:
        """Whether what was read first and last still stands there. A file that was truncated and has grown past where we
        were shows no other sign of it.
        """
        head = os.pread(self._descriptor, len(self._head), 0)
        before = os.pread(self._descriptor, len(self._before), self.offset - len(self._before))
        return head == self._head and before == self._before

    def _over_hole(self, found: os.stat_result) -> int:
        """Step over a hole of a sparse file, as truncating under a writer leaves it; its size."""
        if found.st_blocks * 512 >= found.st_size or found.st_size - self.offset < CHUNK_BYTES:
            return 0
        try:
            data = os.lseek(self._descriptor, self.offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                return 0
            data = found.st_size  # nothing but hole up to the end
        hole = max(0, data - self.offset)
        self.offset += hole
        return hole


class Tail:
    """Follows a path: the file that has its name now, and for a while those that had it before.

    `mark_of` gives the mark of a file that has to be closed for an error, so that it is taken up again where it was left.
    """

    def __init__(self, path: Path, mark_of: Callable[[OpenFile], Mark] | None = None) -> None:
        self.path = path
        self.waiting: list[Mark] = []
        """Marks whose files have not been looked for yet."""
        self.refused: str = "there is no such file"
        """Why nothing is read, empty while a file is."""
        self._current: OpenFile | None = None
        self._draining: list[tuple[OpenFile, float]] = []
        self._mark_of = mark_of

    @property
    def over(self) -> bool:
        """Whether there is nothing to read any more: no file has the name, and those that had it have been drained."""
        return not self.files and not self.waiting

    @property
    def files(self) -> list[OpenFile]:
        """The files that are open."""
        return [file for file, _ in self._draining] + ([self._current] if self._current else [])

    def poll(self, now: float, budget: int = TURN_BYTES) -> Iterator[tuple[OpenFile, Chunk]]:
        """What was added to any of the files, oldest file first. A file that fails is closed and opened again later."""
        if self.waiting:
            self._resume(now)
        if self._current is None:
            self._current = self._open()
        for file, _ in self._draining:
            yield from self._read(file, budget)
        if self._current is not None:
            yield from self._read(self._current, budget)
            if self._current is not None and not self._has_name(self._current):
                self._draining.append((self._current, now))
                self._current = self._open()
                if self._current is not None:
                    yield from self._read(self._current, budget)
        for file, since in list(self._draining):
            if file.at_end and now - since >= DRAIN_SECONDS:
                file.close()
                self._draining.remove((file, since))

    def close(self) -> None:
        """Close all files."""
        for file in self.files:
            file.close()
        self._current, self._draining = None, []

    def _read(self, file: OpenFile, budget: int) -> Iterator[tuple[OpenFile, Chunk]]:
        try:
            for chunk in file.read(budget):
                yield file, chunk
        except OSError as error:  # ESTALE, EIO: the file may come back under its name
            self.refused = os.strerror(error.errno or errno.EIO)
            if self._mark_of:
                self.waiting.append(self._mark_of(file))
            file.close()
            self._draining = [(other, since) for other, since in self._draining if other is not file]
            if self._current is file:
                self._current = None

    def _open(self) -> OpenFile | None:
        try:
            file = OpenFile(self.path, open_regular(self.path))
        except RefusedError as error:
            self.refused = str(error.strerror)
            return None
        except OSError as error:
            missing = error.errno == errno.ENOENT
            self.refused = "there is no such file" if missing else os.strerror(error.errno or errno.EIO)
            return None
        self.refused = ""
        return file

    def _has_name(self, file: OpenFile) -> bool:
        try:
            found = self.path.lstat()
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == file.key

    def _resume(self, now: float) -> None:
        """Take up marked files again, under the path or under the name that rotation gave them."""
        marks, self.waiting = self.waiting, []
        fresh = self._current is None
        self._current = self._current or self._open()
        for mark in marks:
            if fresh and self._current is not None and self._current.mark is None and self._current.resume(mark):
                continue
            for sibling in self._siblings(mark):
                with contextlib.suppress(OSError):
                    file = OpenFile(sibling, open_regular(sibling))
                    if file.resume(mark):
                        self._draining.append((file, now))
                        break
                    file.close()

    def _siblings(self, mark: Mark) -> Iterator[Path]:
        """Other files of the folder with the inode of a mark."""
        with contextlib.suppress(OSError), os.scandir(self.path.parent) as entries:
            for _, entry in zip(range(SIBLINGS), entries, strict=False):
                if entry.inode() == mark.inode and entry.name != self.path.name:
                    yield Path(entry.path)
