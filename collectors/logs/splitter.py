"""Cutting a stream of bytes into blocks of whole lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aidiag.collectors.logs.lines import RARE_LINE_ENDS, count_line_ends, cut

LINE_CAP_BYTES = 16 << 10


@dataclass(slots=True)
class Block:
    """Whole lines: their bytes, the offset of the first byte in the source, and the number (from 1) of the first line, None where
    it is not known.

    `partial` is True for a line that has not ended yet and will come again.
    """

    data: bytes
    offset: int
    line: int | None
    partial: bool = False
    _counted_to: int = 0
    _counted: int = 0
    _plain: bool | None = None

    @property
    def plain(self) -> bool:
        """Whether newlines are the only line ends in it, as in most blocks."""
        if self._plain is None:
            self._plain = not any(byte in self.data for byte in RARE_LINE_ENDS)
        return self._plain

    def number(self, start: int) -> int | None:
        """The number of the line that starts at `start`. To be asked in ascending order: no byte is counted twice."""
        if self.line is None:
            return None
        if start - self._counted_to < 4096 and self.plain:
            self._counted += self.data.count(b"\n", self._counted_to, start)
        else:
            self._counted += count_line_ends(self.data[self._counted_to : start])
        self._counted_to = start
        return self.line + self._counted


class Splitter:
    """Cuts a stream of bytes into blocks of whole lines, in constant memory.

    A line of more than `cap` bytes is kept up to the cap and dropped (and counted) from there to its end; NULs at the start of a
    line, as a truncated file leaves them, do not count. With `inside_line` the stream begins somewhere within a line, which is
    dropped. With `line` None nobody knows or wants to know the numbers, and no time goes into counting.
    """

    def __init__(
        self, offset: int = 0, line: int | None = 1, cap: int = LINE_CAP_BYTES, inside_line: bool = False
    ) -> None:
        self.dropped_bytes = 0
        self._cap = cap
        self._pending = b""
        self._offset = offset
        self._line = line
        self._skipping = inside_line

    @property
    def position(self) -> tuple[int, int | None]:
        """Offset and number of the line that has not ended yet: where reading may start again."""
        return self._offset, self._line

    def feed(self, data: bytes) -> Iterator[Block]:
        """Blocks of the lines that are complete with `data`."""
        newline = data.rfind(b"\n") + 1
        if newline and len(data) - newline <= self._cap and not self._skipping:
            # As a rule: no line is long. This way each byte is copied once.
            whole = b"".join((self._pending, memoryview(data)[:newline]))
            if self._whole(whole)[0] == len(whole):
                self._pending = data[newline:]
                yield from self._give(whole)
                return
        data = self._pending + data
        self._pending = b""
        while data:
            if self._skipping:
                data = self._skip(data)
                continue
            size, long = self._whole(data)
            if size:
                yield from self._give(data[:size])
                data = data[size:]
            if not long:
                nuls = self._leading_nuls(data) if len(data) > self._cap else 0
                self._offset += nuls
                self._pending = data[nuls:]
                return
            start = self._leading_nuls(data)
            end = start + cut(data[start : start + self._cap + 4], self._cap)
            yield from self._give(data[:end])
            self._skipping = True
            data = data[end:]

    def partial(self) -> Block | None:
        """The line that has not ended yet, which stays."""
        if not self._pending or self._skipping:
            return None
        return Block(self._pending, self._offset, self._line, partial=True)

    def finish(self) -> Iterator[Block]:
        """The last line, when the source has ended without ending it."""
        if self._pending and not self._skipping:
            yield from self._give(self._pending)
        else:
            self.dropped_bytes += len(self._pending)
        self._pending = b""

    def skip(self, count: int) -> None:
        """Go on `count` bytes later, within the same line (a hole in a sparse file)."""
        self._offset += count

    def _whole(self, data: bytes) -> tuple[int, bool]:
        """The size of the whole lines at the start of `data`, none over the cap, and whether one over the cap follows."""
        at = 0
        while True:
            # The last newline within the cap: a hop over as many short lines as fit.
            reach = at + self._cap + 1
            newline = data.rfind(b"\n", at, reach) + 1
            if newline > at:
                at = newline
                continue
            if len(data) - at <= self._cap:
                return at, False
            start = at + self._leading_nuls(data[at:])
            if start > at:
                reach = start + self._cap + 1
                newline = data.rfind(b"\n", start, reach) + 1
                if newline:
                    at = newline
                    continue
                if len(data) - start <= self._cap:
                    return at, False
            # A progress bar redraws with bare carriage returns; one at the very end may be half of a line end.
            redraw = data.rfind(b"\r", start, min(reach, len(data)) - 1) + 1
            if not redraw:
                return at, True
            at = redraw

    @staticmethod
    def _leading_nuls(data: bytes) -> int:
        return len(data) - len(data.lstrip(b"\0")) if data[:1] == b"\0" else 0

    def _give(self, data: bytes) -> Iterator[Block]:
        block = Block(data, self._offset, self._line)
        self._offset += len(data)
        yield block
        self._line = block.number(len(data))

    def _skip(self, data: bytes) -> bytes:
        """Drop up to the end of the line; what follows it."""
        newline, redraw = data.find(b"\n") + 1, data.find(b"\r", 0, -1) + 1
        end = min((at for at in (newline, redraw) if at), default=0)
        if end and data[end - 1 : end + 1] == b"\r\n":
            end += 1
        kept = b"" if end else data[len(data) - _begun(data) :]
        size = end or len(data) - len(kept)
        if self._line is not None:
            self._line += count_line_ends(data[:size])
        self._offset += size
        self.dropped_bytes += size
        self._skipping = not end
        if end:
            return data[end:]
        self._pending = kept
        return b""


def _begun(data: bytes) -> int:
    """How many bytes at the end of `data` may be the beginning of a line end."""
    return 2 if data.endswith(b"\xe2\x80") else 1 if data.endswith((b"\xe2", b"\xc2", b"\r")) else 0
