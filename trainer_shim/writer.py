"""The writer of a record: it maps a reserved file and never lets a reader see half an item.

Items are built as bytes first and put into the map by ONE slice assignment. `struct.pack_into` on the map is forbidden:
it clears its target before it writes (a reader saw a sequence number as 0 in a fifth of its reads).
"""

from __future__ import annotations

import json
import mmap
import time
from collections.abc import Mapping
from typing import Optional, Union
from zlib import crc32

from . import layout

Fields = Mapping[str, Union[str, int, float, bool]]

_STAMP = layout.SECTIONS[layout.STAMP]
_STATE = layout.SECTIONS[layout.STATE]
_STEP = layout.SECTIONS[layout.STEP]
_LOADER = layout.SECTIONS[layout.LOADER]
_NOTE = layout.SECTIONS[layout.NOTE]
_IDENTITY = layout.SECTIONS[layout.IDENTITY]
_VALUES = layout.SECTIONS[layout.VALUES]
STAMP_INDEX = _STAMP.offset // layout.STAMP_WORD.size
"""Which of the file's words is the stamp."""
_pack_crc = layout.CRC.pack
_pack_state = layout.item_struct(layout.STATE_HEAD, layout.MEMORY, layout.SPENT).pack
_pack_step = layout.item_struct(layout.STEP_HEAD, layout.SPENT).pack

_STATE_ITEM_BYTES = layout.FRAME_BYTES + layout.STATE_BYTES
_STEP_ITEM_BYTES = layout.FRAME_BYTES + layout.STEP_BYTES

NOTE_TEXT_LIMIT = 400
"""Characters of one text in a note."""


class RecordWriter:
    """Writes one record into `fd`, a file of layout.FILE_BYTES whose blocks are reserved (posix_fallocate).

    The file descriptor stays the caller's. A sparse file would kill the trainer by SIGBUS as soon as the tmpfs is
    full, so the caller reserves it; nobody may shrink it, which its mode 0600 and the folder's 0700 see to.
    Nothing is read from the file before `publish`: write the identity and a state first.
    """

    __slots__ = ("_identity", "_loader", "_map", "_notes", "_state", "_values", "words")

    def __init__(self, fd: int) -> None:
        self._map = mmap.mmap(fd, layout.FILE_BYTES)
        self.words = memoryview(self._map).cast("Q")
        """The file as words of 8 bytes, for stamps."""
        self._state = 0
        self._loader = [0] * layout.LOADERS
        self._notes = 0
        self._identity = 0
        self._values = 0

    def publish(self) -> None:
        """Write the header, which makes the file a record."""
        header = layout.header()
        self._map[0 : len(header)] = header

    @property
    def notes(self) -> int:
        """How many notes were written."""
        return self._notes

    @property
    def identity_version(self) -> int:
        """How often the identity was written."""
        return self._identity

    def _put(self, section: layout.Section, slot: int, sequence: int, payload: bytes) -> None:
        item = layout.frame(sequence, payload)
        if len(item) > section.item_bytes:
            raise ValueError(f"{len(item)} bytes do not fit an item of {section.item_bytes}")
        start = section.place(slot)
        self._map[start : start + len(item)] = item

    def identity(self, identity: Mapping[str, object]) -> None:
        """Write who this trainer is; what does not fit loses its environment, the longest part."""
        payload = json.dumps(identity).encode()
        if len(payload) > _IDENTITY.item_bytes - layout.FRAME_BYTES:
            payload = json.dumps({**identity, "env": {}}).encode()
        self._identity += 1
        self._put(_IDENTITY, self._identity % _IDENTITY.slots, self._identity, payload)

    def stamp(self, phase: int, monotonic_ns: int) -> None:
        """Say which phase the trainer has just entered: one aligned word, which is stored at once."""
        self.words[STAMP_INDEX] = layout.stamp(phase, monotonic_ns)

    def state(self, *fields: float) -> None:
        """Write the fields of a state (STATE_HEAD, MEMORY and SPENT) into the next slot of its ring."""
        sequence = self._state + 1
        self._state = sequence
        body = _pack_state(layout.STATE_BYTES, sequence, *fields)
        start = _STATE.offset + sequence % _STATE.slots * _STATE.item_bytes
        self._map[start : start + _STATE_ITEM_BYTES] = _pack_crc(crc32(body)) + body

    def step(self, number: int, *fields: float) -> None:
        """Write the fields of a step (STEP_HEAD and SPENT), or write them anew when it turns out to have gone on."""
        body = _pack_step(layout.STEP_BYTES, number, *fields)
        start = _STEP.offset + number % _STEP.slots * _STEP.item_bytes
        self._map[start : start + _STEP_ITEM_BYTES] = _pack_crc(crc32(body)) + body

    def loader(self, index: int, payload: bytes) -> None:
        """Write a loader (LOADER_COUNTS, LOADER_FACTS, worker pids) into the copy that is not the newest."""
        sequence = self._loader[index] + 1
        self._loader[index] = sequence
        self._put(_LOADER, index * layout.LOADER_COPIES + sequence % layout.LOADER_COPIES, sequence, payload)

    def note(self, kind: str, fields: Fields, monotonic_ns: Optional[int] = None) -> None:
        """Write a rare event; the oldest of a full area gives way. Long texts are cut."""
        now = time.monotonic_ns() if monotonic_ns is None else monotonic_ns
        cut = {name: value[:NOTE_TEXT_LIMIT] if isinstance(value, str) else value for name, value in fields.items()}
        note = {"kind": kind, "unix": time.time(), "monotonic": now / 1e9, "fields": cut}
        self._notes += 1
        self._put(_NOTE, self._notes % _NOTE.slots, self._notes, json.dumps(note).encode())

    def values(self, values: Mapping[str, float]) -> None:
        """Write the last values that the trainer told by `log`."""
        self._values += 1
        self._put(_VALUES, self._values % _VALUES.slots, self._values, json.dumps(values).encode())

    def close(self) -> None:
        """Unmap the file; the record stays as it is."""
        self.words.release()
        self._map.close()
