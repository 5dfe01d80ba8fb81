"""A file of bounded size for an endless stream: its head, and its newest part in numbered files behind it.

    stdout-12.log       the first HEAD_BYTES, and a mark that says where it goes on
    stdout-12.7.log     the newest parts, each with a mark that says at which byte of the stream it begins;
    stdout-12.8.log     older parts are deleted as new ones come

A file is never renamed and its bytes never move, so that a line number which a finding has named stays right.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from aidiag.diagnose.job.folder import open_to_append

HEAD_BYTES = 8 << 20
PART_BYTES = 4 << 20
PARTS = 4


class Segments:
    """Writes a stream into at most `head_bytes + parts * part_bytes`, cut at line ends where there are any.

    An existing file is continued, with a mark. Every method raises OSError where the disk refuses.
    """

    def __init__(
        self, path: Path, *, head_bytes: int = HEAD_BYTES, part_bytes: int = PART_BYTES, parts: int = PARTS
    ) -> None:
        self._path, self._head_bytes, self._part_bytes, self._parts = path, head_bytes, part_bytes, parts
        self._position = 0
        self._held = 0  # bytes of the stream in the present part
        self._at_line_start = True
        self._number = max(self._numbers(), default=1)
        again = path.exists()
        self._fd, self._size = self._open()
        if again:
            self.mark("the capture was taken up again here; some output may be missing")

    def write(self, data: bytes) -> None:
        """Append to the stream."""
        while data:
            cut = self._cut(data)
            if cut == 0:
                self._next_part()
                continue
            self._append(data[:cut])
            self._position += cut
            self._held += cut
            data = data[cut:]

    def mark(self, text: str) -> None:
        """Put a line of our own into the file."""
        self._append((b"" if self._at_line_start else b"\n") + f"[aidiag] {text}\n".encode())

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _cut(self, data: bytes) -> int:
        """How much of `data` belongs into the present file. Only a line that alone is longer than a part is torn."""
        limit = self._head_bytes if self._number == 1 else self._part_bytes
        room = limit - self._size
        if len(data) <= room:
            return len(data)
        if room > 0 and (end := data.rfind(b"\n", 0, room)) >= 0:
            return end + 1
        if self._at_line_start and self._held:
            return 0
        end = data.find(b"\n")
        longest = max(room + self._part_bytes, 0)
        return min(len(data) if end < 0 else end + 1, longest)

    def _append(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            written = os.write(self._fd, rest)
            self._size += written
            rest = rest[written:]
        self._at_line_start = data.endswith(b"\n")

    def _next_part(self) -> None:
        if self._number == 1:
            self.mark(f"the output goes on in {self._file(2).name} and later parts, of which the newest are kept")
        os.close(self._fd)
        self._number += 1
        self._held = 0
        self._fd, self._size = self._open()
        self._at_line_start = True
        self.mark(f"byte {self._position} of the output; what lies between {self._path.name} and here may be dropped")
        for number in self._numbers():
            if number <= self._number - self._parts:
                self._file(number).unlink(missing_ok=True)

    def _open(self) -> tuple[int, int]:
        fd = open_to_append(self._file(self._number))
        return fd, os.fstat(fd).st_size

    def _file(self, number: int) -> Path:
        return self._path if number == 1 else self._path.with_name(f"{self._path.stem}.{number}{self._path.suffix}")

    def _numbers(self) -> list[int]:
        """The numbers of the later parts on the disk."""
        name = re.compile(re.escape(self._path.stem) + r"\.(\d+)" + re.escape(self._path.suffix))
        found = (name.fullmatch(entry.name) for entry in self._path.parent.iterdir())
        return [int(match[1]) for match in found if match]
