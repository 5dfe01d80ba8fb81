"""The layout of a record file, shared by its writer (in the trainer) and its reader (in the sidecar).

A record is one file of fixed size: a header with a table of sections, and sections of items of fixed size. Integers
are little-endian on every machine. An item is framed as `crc32 | length | sequence | payload`, the CRC covering all
that follows it. In a ring, the item with sequence s lies in slot s modulo the number of slots, so that a torn write
loses one item and never the one before it.

Minor versions may add sections and lengthen payloads: readers skip unknown sections and take the prefix of a payload
that they know. A change of anything else is a new major version.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple, Optional

MAGIC = b"aidiagR\n"
MAJOR = 1
MINOR = 0
ENDIAN_TAG = 0x0A0B0C0D
FILE_BYTES_LIMIT = 256 * 1024

PHASES = (
    "data_wait",
    "h2d",
    "forward",
    "backward",
    "optimizer",
    "comm",
    "checkpoint",
    "evaluation",
    "other",
)
DATA_WAIT, H2D, FORWARD, BACKWARD, OPTIMIZER, COMM, CHECKPOINT, EVALUATION, OTHER = range(len(PHASES))

STAGES = ("attached", "group_init", "training", "failed", "detached")
ATTACHED, GROUP_INIT, TRAINING, FAILED, DETACHED = range(len(STAGES))

ROLES = ("unknown", "training", "evaluation")
ROLE_UNKNOWN, ROLE_TRAINING, ROLE_EVALUATION = range(len(ROLES))

STEP_LOSS = 4
"""The trainer had told a loss."""
STEP_SKIPPED = 1
"""The gradient scaler skipped the optimizer call of this step."""
STEP_FIRST = 2
"""The first step: it holds start-up work and is no sample of the usual step time."""

UNKNOWN = (1 << 64) - 1
"""A number that was never read, in the fields of memory."""


class Section(NamedTuple):
    """A run of `slots` items of `item_bytes` each, from `offset`."""

    kind: int
    offset: int
    item_bytes: int
    slots: int

    def place(self, slot: int) -> int:
        """The offset of a slot in the file."""
        return self.offset + slot * self.item_bytes


IDENTITY, STATE, STAMP, LOADER, STEP, NOTE, VALUES = range(1, 8)
KNOWN_SECTIONS = (IDENTITY, STATE, STAMP, LOADER, STEP, NOTE, VALUES)

HEADER_BYTES = 4096
LOADERS = 16
LOADER_COPIES = 2
WORKER_PIDS = 64
NAME_BYTES = 64


def _sections() -> tuple[Section, ...]:
    shapes = (
        (STATE, 512, 8),
        (STAMP, 64, 1),
        (IDENTITY, 12288, 2),
        (LOADER, 512, LOADERS * LOADER_COPIES),
        (STEP, 128, 512),
        (NOTE, 2048, 24),
        (VALUES, 1024, 2),
    )
    sections = []
    offset = HEADER_BYTES
    for kind, item_bytes, count in shapes:
        sections.append(Section(kind, offset, item_bytes, count))
        offset += -(-item_bytes * count // 64) * 64
    return tuple(sections)


SECTIONS = {section.kind: section for section in _sections()}
FILE_BYTES = -(-max(section.place(section.slots) for section in SECTIONS.values()) // 4096) * 4096

HEADER = struct.Struct("<8sIHHIII")
"""Magic, endian tag, major, minor, bytes of header and table, bytes of the file, sections; then the table and a CRC."""
TABLE_ROW = struct.Struct("<IIII")
CRC = struct.Struct("<I")
FRAME = struct.Struct("<IQ")
FRAME_BYTES = CRC.size + FRAME.size

STATE_HEAD = struct.Struct("<9Q4IHBBIdd")
"""monotonic_ns, unix_ns, phase_since_ns, steps, steps_skipped, batches, last_step_end_ns, last_step_ns, overhead_ns;
version of the identity, notes written, hook errors, calls dropped; loaders used; stage, phase; what was told (TOLD_...);
loss, loss scale."""
TOLD_LOSS = 1
TOLD_SCALE = 2
MEMORY = struct.Struct("<6Q")
"""allocated, reserved, peak, inactive split bytes; allocator retries, out-of-memory errors: UNKNOWN where never read."""
SPENT = struct.Struct(f"<{len(PHASES)}Q")
"""Nanoseconds spent in each phase since the first step began."""
STATE_BYTES = STATE_HEAD.size + MEMORY.size + SPENT.size

STEP_HEAD = struct.Struct("<QdIHH")
"""end_ns, loss, batches taken so far (low 32 bits), flags, spare; the nanoseconds per phase so far follow (SPENT)."""
STEP_BYTES = STEP_HEAD.size + SPENT.size

LOADER_COUNTS = struct.Struct("<5Qi")
"""wait_ns charged to steps, wait_ns during evaluation, batches, iterations begun, batches for which the loader was the
slower one (LoaderHook.own_work_done), batches ready (-1 unknown)."""
LOADER_FACTS = struct.Struct(f"<{NAME_BYTES}s{NAME_BYTES}sHHB")
"""name, dataset, workers, worker pids that follow, role."""
PID = struct.Struct("<I")
LOADER_BYTES = LOADER_COUNTS.size + LOADER_FACTS.size

STAMP_WORD = struct.Struct("<Q")
"""One word that is stored at once: the phase in its 4 high bits and again in its 4 low bits, between them
CLOCK_MONOTONIC nanoseconds without their 4 low bits."""
STAMP_PHASE_SHIFT = 60
STAMP_TIME_MASK = (1 << STAMP_PHASE_SHIFT) - 16
STAMP_PHASES = tuple(phase << STAMP_PHASE_SHIFT | phase for phase in range(len(PHASES)))
"""What a stamp of each phase holds beside the time."""


def item_struct(*parts: struct.Struct) -> struct.Struct:
    """One Struct for the frame of an item (without its CRC) and for all parts of its payload, which saves time."""
    return struct.Struct("<" + "".join(part.format.removeprefix("<") for part in (FRAME, *parts)))


def checksum(data: bytes) -> int:
    """The CRC of an item or a header."""
    return zlib.crc32(data)


def frame(sequence: int, payload: bytes) -> bytes:
    """An item as it lies in the file."""
    body = FRAME.pack(len(payload), sequence) + payload
    return CRC.pack(zlib.crc32(body)) + body


def unframe(item: bytes) -> Optional[tuple[int, bytes]]:
    """Sequence number and payload of an item, None when it is torn, damaged or was never written."""
    if len(item) < FRAME_BYTES:
        return None
    length, sequence = FRAME.unpack_from(item, CRC.size)
    end = FRAME_BYTES + length
    if end > len(item) or CRC.unpack_from(item)[0] != zlib.crc32(item[CRC.size : end]):
        return None
    return sequence, item[FRAME_BYTES:end]


def header() -> bytes:
    """The header of a new file."""
    size = HEADER.size + TABLE_ROW.size * len(SECTIONS) + CRC.size
    body = HEADER.pack(MAGIC, ENDIAN_TAG, MAJOR, MINOR, size, FILE_BYTES, len(SECTIONS))
    body += b"".join(TABLE_ROW.pack(*section) for section in SECTIONS.values())
    return body + CRC.pack(zlib.crc32(body))


def stamp(phase: int, monotonic_ns: int) -> int:
    """The word that says which phase the trainer entered, and when."""
    return STAMP_PHASES[phase] | monotonic_ns & STAMP_TIME_MASK


def unstamp(item: bytes) -> Optional[tuple[int, int]]:
    """Phase and nanoseconds of a stamp, None when it was never written or is made of two."""
    (word,) = STAMP_WORD.unpack_from(item)
    phase = word >> STAMP_PHASE_SHIFT
    if not word or phase != word & 0xF or phase >= len(PHASES):
        return None
    return phase, word & STAMP_TIME_MASK
