"""One path that is followed: the files behind it, and a stream of events for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from aidiag.collectors.logs.dating import Look, date
from aidiag.collectors.logs.lines import count_line_ends
from aidiag.collectors.logs.splitter import Splitter
from aidiag.collectors.logs.stream import LogStream
from aidiag.collectors.logs.tail import Chunk, Mark, OpenFile, Tail
from aidiag.collectors.observation import Event

PARTIAL_SECONDS = 5.0
"""A last line that has stood unfinished for so long is looked at as it is."""

EVENTS_PER_MESSAGE = 500
"""Of one message not more than so many events are told in one turn."""


class Followed:
    """A path that is followed, and a stream for each file that has or had this name.

    `new_stream` makes the stream of a file, over a splitter that stands where reading begins. All that the path holds was
    written after `since` (monotonic seconds, -inf: nobody knows); messages of which nobody knows whether they are younger
    than `oldest` are not told. `totals` counts what was read and dropped, by the name of the signal.
    """

    def __init__(
        self,
        path: Path,
        kind: str,
        new_stream: Callable[[Path, str, Splitter], LogStream],
        *,
        since: float,
        oldest: float,
    ) -> None:
        self.tail = Tail(path, self._mark)
        self.kind = kind
        self.totals: Counter[str] = Counter()
        self._new_stream = new_stream
        self._looked, self._oldest = since, oldest
        self._since: dict[OpenFile, float] = {}
        self._streams: dict[OpenFile, LogStream] = {}
        self._grew: dict[OpenFile, float] = {}
        self._told: Counter[str] = Counter()

    def poll(self, now: float, budget: int, unix_offset: float = 0.0) -> Iterator[Event]:
        """The events of what was added, and of a last line that has stood unfinished for PARTIAL_SECONDS.

        Unix time is ahead of `now` by `unix_offset`.
        """
        self._told.clear()
        fresh: dict[OpenFile, list[Event]] = {}
        for file, chunk in self.tail.poll(now, budget):
            stream = self._stream(file, chunk)
            dropped_before = stream.splitter.dropped_bytes
            fresh.setdefault(file, []).extend(self._bounded(stream.feed(chunk.data, now)))
            self._grew[file] = now
            self.totals["log_bytes_total"] += len(chunk.data)
            self.totals["log_lines_total"] += count_line_ends(chunk.data)
            dropped = stream.splitter.dropped_bytes - dropped_before
            self.totals["log_dropped_bytes_total"] += chunk.skipped_bytes + dropped
        open_files = self.tail.files
        for file, stream in list(self._streams.items()):
            if file not in open_files:
                if not any((mark.device, mark.inode) == file.key for mark in self.tail.waiting):
                    fresh.setdefault(file, []).extend(self._bounded(stream.finish(now)))
                del self._streams[file]
                self._grew.pop(file, None)
            elif now - self._grew.get(file, now) >= PARTIAL_SECONDS:
                fresh.setdefault(file, []).extend(self._bounded(stream.flush(now)))
                del self._grew[file]
        for file, events in fresh.items():
            yield from self._dated(file, events, now, unix_offset)
        self._since = {file: now if file.at_end else self._since.get(file, self._looked) for file in open_files}
        self._looked = now

    def _mark(self, file: OpenFile) -> Mark:
        stream = self._streams.get(file)
        if stream is None and file.mark is not None:
            return file.mark
        offset, line = stream.splitter.position if stream else (0, 1)
        return Mark(
            path=str(self.tail.path),
            device=file.key[0],
            inode=file.key[1],
            fingerprint=file.fingerprint,
            offset=offset,
            line=line,
            reported=stream.reported if stream else (),
        )

    def _stream(self, file: OpenFile, chunk: Chunk) -> LogStream:
        """The stream that a chunk belongs to: a new one where what came before is not to be joined to it."""
        stream = self._streams.get(file)
        if stream is None or chunk.restarted or chunk.skipped_bytes:
            mark, file.mark = file.mark, None
            if chunk.skipped_bytes:
                splitter = Splitter(chunk.offset, None, inside_line=True)
            elif mark is not None and not chunk.restarted:
                splitter = Splitter(mark.offset, mark.line)
            else:
                splitter, mark = Splitter(), None
            stream = self._streams[file] = self._new_stream(file.path, self.kind, splitter)
            if mark is not None and not chunk.skipped_bytes:
                stream.reported = mark.reported
        if chunk.hole_bytes and not chunk.skipped_bytes:
            stream.splitter.skip(chunk.hole_bytes)
        return stream

    def _dated(self, file: OpenFile, events: Sequence[Event], now: float, unix_offset: float) -> Iterator[Event]:
        since = self._since.get(file, self._looked)
        look = Look(now, since, file.changed_unix - unix_offset, unix_offset)
        for event in date(events, look, self._oldest):
            yield event
            if event.unix is not None and event.time is not None:
                self._since[file] = event.time

    def _bounded(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            message = str(event.fields.get("message", ""))
            self._told[message] += 1
            if self._told[message] <= EVENTS_PER_MESSAGE:
                yield event
            else:
                self.totals["log_dropped_events_total"] += 1
