"""The reader of a record, which may be torn, older, newer, garbage, or made by somebody with ill intent.

It never maps the file: a job that shrinks a mapped file would kill its reader by SIGBUS. Every length that the file
states is held against the file's own size and against fixed caps before it is used.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator, Mapping
from typing import Optional

from . import layout
from .model import Identity, LoaderRecord, Note, Record, RecordError, State, seconds_by_phase
from .payloads import brought_up, identity_of, json_object, known_number, loader_of, note_of, numbers_of, steps_of

FILE_BYTES_LIMIT = 4 << 20
SECTIONS_LIMIT = 64
ITEMS_LIMIT = 1 << 16
TRIES = 64
"""Reads of a ring in which no slot was whole, before the record counts as busy."""
STEPS_AHEAD = 128
"""Steps that can have ended since the last state: states are at most Timeline.STATE_NS apart where steps are shorter."""
_LEAST_BYTES = {
    layout.IDENTITY: layout.FRAME_BYTES + 2,
    layout.STATE: layout.FRAME_BYTES + layout.STATE_BYTES,
    layout.STAMP: layout.STAMP_WORD.size,
    layout.LOADER: layout.FRAME_BYTES + layout.LOADER_BYTES,
    layout.STEP: layout.FRAME_BYTES + layout.STEP_BYTES,
    layout.NOTE: layout.FRAME_BYTES + 2,
    layout.VALUES: layout.FRAME_BYTES + 2,
}


def read_record(path: str, *, owner_uid: Optional[int] = None, dir_fd: Optional[int] = None) -> Record:
    """Everything that a record holds. Raises RecordError; see RecordReader for the arguments."""
    with RecordReader(path, owner_uid=owner_uid, dir_fd=dir_fd) as reader:
        return reader.read()


class RecordReader:
    """Reads one record, again and again; it keeps the file open and reads anew only what can have changed.

    `path` must be a regular file, with one name, and of `owner_uid` where that is given; `dir_fd` is the folder that a
    relative path starts from. Raises RecordError.
    """

    def __init__(self, path: str, *, owner_uid: Optional[int] = None, dir_fd: Optional[int] = None) -> None:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            self._fd = os.open(path, flags, dir_fd=dir_fd)
        except OSError as error:
            raise RecordError("unreadable", f"cannot open {path}: {error.strerror}") from None
        try:
            facts = os.fstat(self._fd)
            if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1:
                raise RecordError("refused", f"{path} is not a regular file with one name")
            if owner_uid is not None and facts.st_uid != owner_uid:
                raise RecordError("refused", f"{path} belongs to user {facts.st_uid}, not to {owner_uid}")
            self._version, self._sections = self._read_header(facts.st_size)
        except BaseException:
            os.close(self._fd)
            raise
        self._identity: tuple[int, Optional[Identity]] = (0, None)
        self._notes: tuple[int, tuple[Note, ...]] = (0, ())

    def __enter__(self) -> RecordReader:  # noqa: PYI034 - Self is not in Python 3.9
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def read(self, *, steps_after: int = -1) -> Record:
        """The record as it is now. Steps up to number `steps_after` are left out, which saves reading them."""
        state, versions = self._read_state()
        identity = self._read_identity(versions["identity"])
        items = self._read_step_items(state.steps + state.steps_skipped, steps_after)
        state = brought_up(state, items)
        return Record(
            self._version,
            identity,
            state,
            steps_of(items, max(steps_after, 0)),
            self._read_loaders(versions["loaders"]),
            self._read_notes(versions["notes"]),
            self._read_values(),
        )

    def content(self) -> bytes:
        """The whole file as it is now, even where its name is gone. Raises RecordError."""
        return self._pread(0, FILE_BYTES_LIMIT)

    def removed(self) -> bool:
        """Whether the file has no name any more."""
        return os.fstat(self._fd).st_nlink == 0

    # the file

    def _pread(self, offset: int, count: int) -> bytes:
        try:
            return os.pread(self._fd, count, offset)
        except OSError as error:
            raise RecordError("unreadable", f"cannot read: {error.strerror}") from None

    def _read_header(self, file_bytes: int) -> tuple[tuple[int, int], dict[int, layout.Section]]:
        if file_bytes > FILE_BYTES_LIMIT:
            raise RecordError("not_a_record", f"{file_bytes} bytes are more than a record has")
        start = self._pread(0, layout.HEADER_BYTES)
        if not start.strip(b"\0"):
            raise RecordError("not_ready", "nothing is in the file yet")
        if len(start) < layout.HEADER.size or start[:8] != layout.MAGIC:
            raise RecordError("not_a_record", "the file does not begin as a record does")
        _, endian, major, minor, header_bytes, stated_bytes, count = layout.HEADER.unpack_from(start)
        if endian != layout.ENDIAN_TAG:
            raise RecordError("damaged", "the byte order is not that of a record")
        if major != layout.MAJOR:
            kind = "newer_layout" if major > layout.MAJOR else "not_a_record"
            raise RecordError(kind, f"the record has layout {major}.{minor}, this reader knows {layout.MAJOR}")
        table_end = layout.HEADER.size + layout.TABLE_ROW.size * count
        if count > SECTIONS_LIMIT or not table_end + layout.CRC.size <= header_bytes <= len(start):
            raise RecordError("damaged", "the header has no valid length")
        if layout.CRC.unpack_from(start, header_bytes - layout.CRC.size)[0] != layout.checksum(
            start[: header_bytes - layout.CRC.size]
        ):
            raise RecordError("damaged", "the header's checksum is wrong")
        if stated_bytes > file_bytes:
            raise RecordError("damaged", f"the file has {file_bytes} of its {stated_bytes} bytes")
        sections = {}
        for row in range(count):
            section = layout.Section(
                *layout.TABLE_ROW.unpack_from(start, layout.HEADER.size + row * layout.TABLE_ROW.size)
            )
            if section.kind in layout.KNOWN_SECTIONS:
                self._check_section(section, file_bytes)
                sections[section.kind] = section
        missing = [kind for kind in layout.KNOWN_SECTIONS if kind not in sections]
        if missing:
            raise RecordError("damaged", f"section {missing[0]} is missing")
        return (major, minor), sections

    @staticmethod
    def _check_section(section: layout.Section, file_bytes: int) -> None:
        if (
            not 0 < section.slots <= ITEMS_LIMIT
            or section.item_bytes < _LEAST_BYTES[section.kind]
            or section.offset < layout.HEADER.size
            or section.place(section.slots) > file_bytes
        ):
            raise RecordError("damaged", f"section {section.kind} does not lie within the file")

    def _items(
        self, kind: int, first: int = 0, count: Optional[int] = None, numbers: Optional[range] = None
    ) -> Iterator[tuple[int, int, bytes]]:
        """The whole items among slots, the newest first: slot, sequence, payload. Of sequence numbers outside `numbers`
        nothing is looked at, which saves checking what is old.
        """
        section = self._sections[kind]
        count = section.slots - first if count is None else count
        data = self._pread(section.place(first), section.item_bytes * count)
        data = data[: len(data) // section.item_bytes * section.item_bytes]
        sequences = struct.iter_unpack(f"<{layout.CRC.size + 4}xQ{section.item_bytes - layout.FRAME_BYTES}x", data)
        told = [(sequence, place) for place, (sequence,) in enumerate(sequences)]
        for _, place in sorted(told if numbers is None else (one for one in told if one[0] in numbers), reverse=True):
            found = layout.unframe(data[place * section.item_bytes : (place + 1) * section.item_bytes])
            if found is not None:
                yield first + place, found[0], found[1]

    def _newest(self, kind: int, least_bytes: int) -> tuple[int, bytes]:
        """Sequence and payload of the newest whole item of a ring. Raises RecordError when there is none."""
        count = self._sections[kind].slots
        for _ in range(TRIES):
            for slot, sequence, payload in self._items(kind):
                if sequence % count == slot and len(payload) >= least_bytes:
                    return sequence, payload
        raise RecordError("busy" if self._has_bytes(kind) else "not_ready", "no whole item was found")

    def _has_bytes(self, kind: int) -> bool:
        section = self._sections[kind]
        return bool(self._pread(section.offset, section.item_bytes * section.slots).strip(b"\0"))

    # its parts

    def _read_state(self) -> tuple[State, dict[str, int]]:
        sequence, payload = self._newest(layout.STATE, layout.STATE_BYTES)
        (
            monotonic, unix, since, steps, skipped, batches, ended, last, overhead,
            identity, notes, errors, dropped, loaders, stage, phase, told, loss, loss_scale,
        ) = layout.STATE_HEAD.unpack_from(payload)  # fmt: skip
        memory = layout.MEMORY.unpack_from(payload, layout.STATE_HEAD.size)
        spent = layout.SPENT.unpack_from(payload, layout.STATE_HEAD.size + layout.MEMORY.size)
        if stage >= len(layout.STAGES) or phase >= len(layout.PHASES) or steps + skipped >= 1 << 62:
            raise RecordError("damaged", "the state holds numbers that no writer writes")
        stamp = self._read_stamp()
        if stamp is not None and stamp[1] >= monotonic:
            phase, since = stamp
        heartbeat = max(monotonic, since)
        state = State(
            sequence=sequence,
            monotonic=heartbeat / 1e9,
            unix=(unix + heartbeat - monotonic) / 1e9,
            stage=layout.STAGES[stage],
            phase=layout.PHASES[phase],
            phase_since=since / 1e9,
            steps=steps,
            steps_skipped=skipped,
            batches=batches,
            step_seconds=sum(spent) / 1e9,
            last_step_seconds=last / 1e9 if ended else None,
            last_step_end=ended / 1e9 if ended else None,
            phase_seconds=seconds_by_phase(spent),
            overhead_seconds=overhead / 1e9,
            hook_errors=errors,
            calls_dropped=dropped,
            loss=loss if told & layout.TOLD_LOSS else None,
            loss_scale=loss_scale if told & layout.TOLD_SCALE else None,
            memory_allocated_bytes=known_number(memory[0]),
            memory_reserved_bytes=known_number(memory[1]),
            memory_peak_bytes=known_number(memory[2]),
            memory_inactive_split_bytes=known_number(memory[3]),
            memory_alloc_retries=known_number(memory[4]),
            memory_ooms=known_number(memory[5]),
        )
        return state, {"identity": identity, "notes": notes, "loaders": loaders}

    def _read_stamp(self) -> Optional[tuple[int, int]]:
        section = self._sections[layout.STAMP]
        data = self._pread(section.offset, layout.STAMP_WORD.size)
        return layout.unstamp(data) if len(data) == layout.STAMP_WORD.size else None

    def _read_identity(self, version: int) -> Identity:
        known, identity = self._identity
        if identity is None or known != version:
            sequence, payload = self._newest(layout.IDENTITY, 2)
            identity = identity_of(json_object(payload))
            self._identity = (sequence, identity)
        return identity

    def _read_step_items(self, known: int, after: int) -> dict[int, bytes]:
        """Payloads of the steps from number `after` on by their numbers, without a gap at the end.

        The state knows steps up to `known`; a few further ones may be there, of which no state was written yet.
        """
        section = self._sections[layout.STEP]
        last = known + STEPS_AHEAD
        first = max(min(after, known), known - section.slots + 1, 0)
        count = min(last - first + 1, section.slots)
        if count <= 0:
            return {}
        start = first % section.slots
        numbers = range(first, last + 1)
        parts = [self._items(layout.STEP, start, min(count, section.slots - start), numbers)]
        if start + count > section.slots:
            parts.append(self._items(layout.STEP, 0, start + count - section.slots, numbers))
        found = {
            number: payload
            for part in parts
            for slot, number, payload in part
            if number % section.slots == slot and len(payload) >= layout.STEP_BYTES
        }
        end = max(known, first)
        while end + 1 in found:
            end += 1
        return {number: payload for number, payload in sorted(found.items()) if number <= end}

    def _read_loaders(self, used: int) -> tuple[LoaderRecord, ...]:
        section = self._sections[layout.LOADER]
        copies = layout.LOADER_COPIES
        used = min(used, section.slots // copies)
        newest: dict[int, tuple[int, bytes]] = {}
        for slot, sequence, payload in self._items(layout.LOADER, 0, used * copies) if used else ():
            if sequence % copies == slot % copies and len(payload) >= layout.LOADER_BYTES:
                newest[slot // copies] = max(newest.get(slot // copies, (0, b"")), (sequence, payload))
        return tuple(loader_of(index, payload) for index, (_, payload) in sorted(newest.items()))

    def _read_notes(self, written: int) -> tuple[Note, ...]:
        if written != self._notes[0]:
            count = self._sections[layout.NOTE].slots
            whole = sorted(
                (sequence, payload) for slot, sequence, payload in self._items(layout.NOTE) if sequence % count == slot
            )
            notes = tuple(note for sequence, payload in whole if (note := note_of(sequence, payload)) is not None)
            self._notes = (written, notes)
        return self._notes[1]

    def _read_values(self) -> Mapping[str, float]:
        count = self._sections[layout.VALUES].slots
        whole = (payload for slot, sequence, payload in self._items(layout.VALUES) if sequence % count == slot)
        newest = next(whole, None)
        if newest is None:
            return {}
        return numbers_of(newest)
