"""The layout of a record file."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aidiag.trainer_shim import layout


def test_a_record_stays_within_its_limit() -> None:
    """One rank costs at most 256 KiB of memory, however many steps it makes."""
    assert layout.FILE_BYTES <= layout.FILE_BYTES_LIMIT


def test_sections_do_not_overlap() -> None:
    """Every section begins behind the one before it, the first behind the header."""
    ends = layout.HEADER_BYTES
    for section in sorted(layout.SECTIONS.values(), key=lambda section: section.offset):
        assert section.offset >= ends
        ends = section.place(section.slots)
    assert ends <= layout.FILE_BYTES


def test_every_item_fits_its_slot() -> None:
    """The fixed payloads and a loader with all its worker pids fit the slots that are meant for them."""
    sizes = {
        layout.STATE: layout.STATE_BYTES,
        layout.STEP: layout.STEP_BYTES,
        layout.LOADER: layout.LOADER_BYTES + layout.WORKER_PIDS * layout.PID.size,
    }
    for kind, payload in sizes.items():
        assert layout.FRAME_BYTES + payload <= layout.SECTIONS[kind].item_bytes


def test_enough_steps_are_kept() -> None:
    """The ring of steps holds at least 256, the ring of states 8."""
    assert layout.SECTIONS[layout.STEP].slots >= 256
    assert layout.SECTIONS[layout.STATE].slots == 8


@given(st.integers(0, 2**64 - 1), st.binary(max_size=400))
def test_an_item_comes_back(sequence: int, payload: bytes) -> None:
    """What was framed is unframed, also from a slot with old bytes behind it."""
    item = layout.frame(sequence, payload)

    assert (sequence, payload) == layout.unframe(item + b"old")


@given(st.integers(0, 2**64 - 1), st.binary(max_size=100), st.data())
def test_a_damaged_item_is_none(sequence: int, payload: bytes, data: st.DataObject) -> None:
    """An item with a flipped bit is no item."""
    item = bytearray(layout.frame(sequence, payload))
    bit = data.draw(st.integers(0, len(item) * 8 - 1))
    item[bit // 8] ^= 1 << bit % 8

    assert layout.unframe(bytes(item)) is None


@given(st.integers(0, len(layout.PHASES) - 1), st.integers(16, layout.STAMP_TIME_MASK + 15))
def test_a_stamp_comes_back(phase: int, time_ns: int) -> None:
    """A stamp holds its phase, and its time to 16 ns."""
    stamp = layout.STAMP_WORD.pack(layout.stamp(phase, time_ns))

    assert (phase, time_ns // 16 * 16) == layout.unstamp(stamp)


def test_half_a_stamp_is_none() -> None:
    """A word of which one half is of another phase is no stamp."""
    one, two = (layout.STAMP_WORD.pack(layout.stamp(phase, 10**15)) for phase in (1, 2))

    assert layout.unstamp(one[:4] + two[4:]) is None


def test_an_empty_slot_is_none() -> None:
    """Zero bytes are neither an item nor a stamp."""
    assert layout.unframe(bytes(512)) is None
    assert layout.unstamp(bytes(16)) is None
