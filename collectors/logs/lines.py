r"""Lines in raw bytes, as `Path.read_text().splitlines()` sees them.

Evidence names a line number of a file that other programs check with Python's idea of a line: besides `\n` and `\r\n` a
line ends at a bare `\r` (each redraw of a progress bar is a line), `\v`, `\f`, `\x1c`-`\x1e`, U+0085, U+2028 and U+2029. In UTF-8
these byte sequences cannot be part of another character, so they are found without decoding.
"""

from __future__ import annotations

import re
from bisect import bisect_right

LINE_END = re.compile(rb"\r\n|[\n\r\v\f\x1c-\x1e]|\xc2\x85|\xe2\x80[\xa8\xa9]")

RARE_LINE_ENDS = (b"\r", b"\v", b"\f", b"\x1c", b"\x1d", b"\x1e", b"\xc2", b"\xe2")
"""Bytes with which a line end other than the newline begins."""

# CSI, OSC with its end, and the two-character escapes of ECMA-48; NUL as sparse files and UTF-16 leave it.
_INVISIBLE = re.compile(
    rb"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][\x20-\x7e]{0,512}(?:\x07|\x1b\\)|[ -/][0-~]|[0-Z\\^-~])|\x00+"
)


def count_line_ends(data: bytes) -> int:
    """How many lines end in `data`, which must not be cut inside a line end."""
    # Taking newlines out and comparing lengths is three times as fast as bytes.count.
    count = len(data) - len(data.replace(b"\n", b""))
    if b"\r" in data:
        count += data.count(b"\r") - data.count(b"\r\n")
    for rare in (b"\v", b"\f", b"\x1c", b"\x1d", b"\x1e"):
        if rare in data:
            count += data.count(rare)
    if b"\xc2" in data:
        count += data.count(b"\xc2\x85")
    if b"\xe2" in data:
        count += data.count(b"\xe2\x80\xa8") + data.count(b"\xe2\x80\xa9")
    return count


def decode(raw: bytes) -> str:
    r"""Text of a log, with `\xNN` for bytes that are not UTF-8."""
    return raw.decode("utf-8", "backslashreplace")


def cut(data: bytes, limit: int) -> int:
    """The largest size up to `limit` at which `data` can be cut without splitting a character or a line end."""
    if len(data) <= limit:
        return len(data)
    end = limit
    while end > limit - 3 and data[end] & 0xC0 == 0x80:
        end -= 1
    if data[end - 1 : end + 1] == b"\r\n":
        end -= 1
    return end


class Visible:
    """Bytes without escape sequences and NULs, and the way back to where each stood."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.changed = b"\x1b" in raw or b"\x00" in raw
        self.text = _INVISIBLE.sub(b"", raw) if self.changed else raw
        self._at: list[int] | None = None
        self._removed: list[int] = []

    def raw_position(self, position: int) -> int:
        """Where the byte at `position` of `text` stands in `raw`."""
        if not self.changed:
            return position
        if self._at is None:
            self._at, removed = [], 0
            for found in _INVISIBLE.finditer(self.raw):
                self._at.append(found.start() - removed)
                removed += found.end() - found.start()
                self._removed.append(removed)
        index = bisect_right(self._at, position)
        return position + (self._removed[index - 1] if index else 0)
