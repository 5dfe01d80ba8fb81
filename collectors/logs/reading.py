"""Reading a whole log after the fact (`aidiag diagnose LOG`)."""

from __future__ import annotations

import codecs
import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from aidiag.collectors.logs.attribution import Owner
from aidiag.collectors.logs.compiled import Catalogue, load_catalogue
from aidiag.collectors.logs.compressed import CompressedError, chunks
from aidiag.collectors.logs.files import open_regular, owner_by_name
from aidiag.collectors.logs.lines import decode
from aidiag.collectors.logs.processes import Processes
from aidiag.collectors.logs.splitter import Block, Splitter
from aidiag.collectors.logs.stream import LogStream
from aidiag.collectors.observation import Event

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_log(
    log: Path | BinaryIO,
    *,
    source: str | None = None,
    job: str = "",
    owner: Owner | None = None,
    processes: Processes | None = None,
    catalogue: Catalogue | None = None,
    reference: float | None = None,
    numbered: bool = True,
    read: Callable[[int], None] = lambda _: None,
) -> Iterator[Event]:
    """The events of a log, in constant memory. Raises OSError (RefusedError for what is no regular file,
    CompressedError where compressed data is damaged or ends too early: its events up to there have been given).

    `log` is a path or a binary stream (standard input, a pipe, a decompressor). `source` is what evidence calls it: by
    default the path as it was given, or `-`. One that is compressed (gzip, xz, bzip2, zstd) is read as its text. Logs of one job that are read one after the other should share `processes`, so that
    what one tells of a process counts in the next. Events have no `time`; `unix` and the order of the log is all that a
    file knows. `reference` is the time of its end, for times without a year: by default that of its last change. Without
    `numbered` places have no line, which takes a third less time on a huge log. `read` is told as it goes on how many more
    bytes of the log were read.
    """
    if not isinstance(log, Path):
        yield from _events(
            log, source or "-", job, owner or Owner(), processes, catalogue, reference or time.time(), numbered, read
        )
        return
    with open(open_regular(log), "rb", buffering=0) as file:
        changed = os.fstat(file.fileno()).st_mtime
        whose = owner or owner_by_name(log)
        name = source or str(log)
        yield from _events(file, name, job, whose, processes, catalogue, reference or changed, numbered, read)


def read_lines(path: Path, numbers: Iterable[int]) -> Iterator[tuple[int, str]]:
    """Some lines of a log of any size, by their numbers from 1 and in their order, in constant memory. Those that it
    does not have are left out, and what is beyond the cap of a line is cut. Raises OSError (RefusedError for what is no
    regular file).
    """
    wanted = sorted({number for number in numbers if number >= 1}, reverse=True)
    with open(open_regular(path), "rb", buffering=0) as file:
        for block in _blocks(file):
            if not wanted:
                return
            first, after = block.line or 1, block.number(len(block.data)) or 1
            lines = decode(block.data).splitlines() if wanted[-1] <= after else []
            while wanted and wanted[-1] < first + len(lines):
                number = wanted.pop()
                yield number, lines[number - first]


def _blocks(file: BinaryIO) -> Iterator[Block]:
    splitter = Splitter()
    with contextlib.suppress(CompressedError):  # what comes before the damage was read, too
        for data in _utf8(chunks(file)):
            yield from splitter.feed(data)
    yield from splitter.finish()


def _events(
    file: BinaryIO,
    source: str,
    job: str,
    owner: Owner,
    processes: Processes | None,
    catalogue: Catalogue | None,
    reference: float,
    numbered: bool,
    read: Callable[[int], None],
) -> Iterator[Event]:
    stream = LogStream(
        catalogue or load_catalogue(),
        source,
        job=job,
        owner=owner,
        processes=processes,
        reference=reference,
        splitter=Splitter(line=1 if numbered else None),
    )
    try:
        for data in _utf8(chunks(file, read)):
            yield from stream.feed(data)
    except CompressedError:
        yield from stream.finish()
        raise
    yield from stream.finish()


def _utf8(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The bytes of a log; of one that begins with a UTF-16 byte order mark, its text in UTF-8."""
    first = next(pieces, b"")
    if first in (b"\xff", b"\xfe"):
        first += next(pieces, b"")
    if not first.startswith(_UTF16):
        if first:
            yield first
        yield from pieces
        return
    decoder = codecs.getincrementaldecoder("utf-16")("backslashreplace")
    yield decoder.decode(first).encode("utf-8", "backslashreplace")
    for data in pieces:
        yield decoder.decode(data).encode("utf-8", "backslashreplace")
    yield decoder.decode(b"", final=True).encode("utf-8", "backslashreplace")
