"""Compressed logs as streams: gzip, xz, bzip2 and zstd, told by how they begin, in constant memory.

Whoever reads gets the text, so that lines are counted in what `zcat` and its kin print. A file may hold several compressed
streams one behind the other, as log rotation leaves them.
"""

from __future__ import annotations

import bz2
import errno
import importlib
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

ENDINGS = (".gz", ".xz", ".bz2", ".zst")
"""What such files are called, for those who look at names."""

XZ_MEMORY_BYTES = 96 << 20
"""What an xz stream may ask for: `xz -9` needs 65 MiB to decompress."""

PIECE_BYTES = 96 << 10


class CompressedError(OSError):
    """Compressed data that cannot be read, or not to its end; what came before was given."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(errno.EIO, reason)
        self.remedy = remedy


class _Decompressor(Protocol):
    """What the decompressors of the standard library share."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def needs_input(self) -> bool: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class _Format:
    name: str
    magic: bytes
    make: Callable[[], _Decompressor]
    padding: bytes = b""
    """What may stand behind a stream and means nothing (gzip(1) and the xz format allow NULs)."""


class _Gzip:
    """zlib's decompressor with the manners of the others: what was not taken stays inside."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(wbits=31)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        text = self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)
        # A full answer may leave more inside even where all input was taken.
        self.needs_input = len(text) < max_length and not self._zlib.unconsumed_tail
        return text


def _zstd() -> _Decompressor:
    made: _Decompressor
    for module, name in (
        ("compression.zstd", "ZstdDecompressor"),
        ("backports.zstd", "ZstdDecompressor"),
        ("pyzstd", "ZstdDecompressor"),
    ):
        try:
            made = getattr(importlib.import_module(module), name)()
            return made
        except (ImportError, AttributeError):
            continue
    raise CompressedError(
        "is compressed with zstd, for which this Python has no library",
        "unzstd it first, or pip install backports.zstd",
    )


_FORMATS = (
    _Format("gzip", b"\x1f\x8b\x08", _Gzip, b"\0"),
    _Format("xz", b"\xfd7zXZ\0", lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY_BYTES), b"\0"),
    _Format("bzip2", b"BZh", bz2.BZ2Decompressor),
    _Format("zstd", b"\x28\xb5\x2f\xfd", _zstd),
)
_BZIP2_BLOCKS = (b"1AY&SY", b"\x17rE8P\x90")


def plain_name(name: str) -> str:
    """A file's name without the ending that compressing gave it."""
    for ending in ENDINGS:
        if name.endswith(ending):
            return name.removesuffix(ending)
    return name


def chunks(file: BinaryIO, read: Callable[[int], None] = lambda _: None) -> Iterator[bytes]:
    """The text of a file in pieces, decompressed where it is compressed. `read` is told how many bytes of the file were
    read each time. Raises OSError, CompressedError where the text ends before the file says so.
    """
    first = _first(file)
    format_ = next((one for one in _FORMATS if _begins(first, one)), None)
    pieces = _raw(file, first, read)
    if format_ is None:
        yield from pieces
    else:
        yield from _decompressed(pieces, format_)


def _first(file: BinaryIO) -> bytes:
    """As much as tells the format: a pipe may give a single byte."""
    first = file.read(PIECE_BYTES)
    while 0 < len(first) < 10 and any(one.magic.startswith(first[: len(one.magic)]) for one in _FORMATS):
        more = file.read(PIECE_BYTES)
        if not more:
            break
        first += more
    return first


def _begins(data: bytes, format_: _Format) -> bool:
    if not data.startswith(format_.magic):
        return False
    return format_.name != "bzip2" or (data[3:4].isdigit() and data[4:10] in _BZIP2_BLOCKS)


def _raw(file: BinaryIO, data: bytes, read: Callable[[int], None]) -> Iterator[bytes]:
    while data:
        read(len(data))
        yield data
        data = file.read(PIECE_BYTES)


def _decompressed(pieces: Iterator[bytes], format_: _Format) -> Iterator[bytes]:
    stream: _Decompressor | None = format_.make()
    whole = 0
    for data in pieces:
        while True:
            if stream is None:
                data = data.lstrip(format_.padding)
                if not data:
                    break
                stream = format_.make()
            try:
                text = stream.decompress(data, PIECE_BYTES)
            except Exception as problem:  # noqa: BLE001 # each library has errors of its own
                raise _broken(format_, problem, whole) from None
            data = b""
            if text:
                yield text
            if stream.eof:
                data, stream = stream.unused_data, None
                whole += 1
            elif stream.needs_input:
                break
    if stream is not None:
        raise CompressedError(f"its {format_.name} data is cut short; what is there was read", "get the whole file")


def _broken(format_: _Format, problem: Exception, whole: int) -> CompressedError:
    if "emory" in str(problem):
        return CompressedError(f"its {format_.name} data needs more memory than a log should", "decompress it first")
    if whole:
        return CompressedError(f"holds something else behind its {format_.name} data; what comes before was read", "")
    return CompressedError(
        f"its {format_.name} data is damaged ({problem}); what comes before was read", "copy it again"
    )
