import io
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aidiag.collectors.logs.lines import Visible, count_line_ends, cut
from aidiag.collectors.logs.splitter import Splitter

CAP = 64

PIECES = st.sampled_from(
    [
        b"\n", b"\r\n", b"\r", b"\r\r\n", b"\v", b"\f", b"\x1c", b"\x1d", b"\x1e", b"\xc2\x85", b"\x85", b"\xe2\x80\xa8",
        b"\xe2\x80\xa9", b"\xe2", b"\x80", b"\xa8", b"\xc2", b"\x00", b"\x00" * 40, b"a", b"bc", b"\xe2\x96\x88",
        b"x" * 30, b"y" * 70, b"z" * 200, b"\x1b[31m", b"\x1b]0;t\x07", b"\xff", b"\xf0\x9f\x98\x80",
    ]
)  # fmt: skip
RAW = st.lists(PIECES, max_size=40).map(b"".join)


def python_lines(data: bytes) -> list[str]:
    """The lines as `Path.read_text(errors=...).splitlines()` gives them."""
    return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", errors="backslashreplace").read().splitlines()


def chunks(data: bytes, sizes: list[int]) -> Iterator[bytes]:
    """The data in chunks of the sizes, in turn."""
    at = turn = 0
    while at < len(data):
        size = sizes[turn % len(sizes)] if sizes else len(data)
        yield data[at : at + size]
        at, turn = at + size, turn + 1


def split(data: bytes, sizes: list[int], cap: int = CAP) -> tuple[list[tuple[int, str]], int]:
    """Number and text of each line that a splitter gives, and the bytes that it dropped."""
    splitter = Splitter(cap=cap)
    blocks = [block for chunk in chunks(data, sizes) for block in splitter.feed(chunk)]
    blocks += splitter.finish()
    found = []
    for block in blocks:
        line = block.line or 0
        for text in block.data.decode("utf-8", "backslashreplace").splitlines(keepends=True):
            found.append((line, text.splitlines()[0].lstrip("\0") if text.splitlines() else ""))
            line += 1
    return [one for one in found if one[1].strip("\0")], splitter.dropped_bytes


@given(RAW)
def test_line_ends_are_those_of_splitlines(data: bytes) -> None:
    """Counting in bytes gives what Python counts in the decoded text."""
    text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", errors="backslashreplace").read()
    ends = len(text.splitlines()) - (1 if text and text[-1].splitlines() != [""] else 0)
    assert count_line_ends(data) == ends


@given(RAW, st.lists(st.integers(1, 90), max_size=4))
def test_blocks_hold_every_line_once_with_its_number(data: bytes, sizes: list[int]) -> None:
    """However a stream is cut into chunks, each short line comes once, with the number that Python gives it."""
    expected = python_lines(data)
    found, _ = split(data, sizes, cap=4096)
    texts = dict(found)
    for number, text in enumerate(expected, 1):
        if text.strip("\0"):
            assert texts[number] == text.lstrip("\0")
    assert len(texts) == len(found)


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\r\n", "\r"])
def test_a_line_end_in_the_dropped_part_counts_however_it_is_chunked(end: str) -> None:
    """Behind the cap every line end counts, those of several bytes too when chunks cut them."""
    data = ("x" * 100 + f"{end}y" * 3 + "\nlast").encode()
    expected = python_lines(data)
    for size in range(1, len(data)):
        found, _ = split(data, [size])
        assert found[-1] == (len(expected), "last"), size


@settings(max_examples=200)
@given(RAW, st.lists(st.integers(1, 90), max_size=4))
def test_long_lines_are_cut_and_the_rest_is_counted(data: bytes, sizes: list[int]) -> None:
    """What is kept of a long line is its beginning, numbers stay right behind it, and chunks make no difference."""
    expected = python_lines(data)
    found, dropped = split(data, sizes)
    assert (found, dropped) == split(data, [])
    for number, text in found:
        assert text.strip("\0") in expected[number - 1]


def test_a_line_without_end_is_resynchronised_at_the_next_line_end() -> None:
    """The rest of a long line is dropped, what follows is read."""
    found, dropped = split(b"a" * 1000 + b"\nshort\n" + b"b" * 1000 + b"\r\nlast", [10])
    assert [(number, text) for number, text in found] == [(1, "a" * CAP), (2, "short"), (3, "b" * CAP), (4, "last")]
    assert dropped == 2 * (1000 - CAP) + 3


def test_a_progress_bar_without_newlines_is_read_line_by_line() -> None:
    """Each redraw with a bare carriage return is a line."""
    data = b"".join(b"\r%3d%% of the epoch" % percent for percent in range(100)) + b"\nRuntimeError: x\n"
    found, dropped = split(data, [7])
    assert dropped == 0
    assert (found[0][0], found[99][1], found[100]) == (2, " 99% of the epoch", (102, "RuntimeError: x"))


def test_nuls_before_a_line_do_not_use_up_its_cap() -> None:
    """A file that was truncated under its writer begins with a hole, and the first line stands right behind it."""
    found, dropped = split(b"\0" * 100_000 + b"Killed\nnext\n", [4096])
    assert [(number, text.lstrip("\0")) for number, text in found] == [(1, "Killed"), (2, "next")]
    assert dropped == 0


def test_memory_stays_constant() -> None:
    """Neither a line of 32 MiB, nor as many NULs, nor short lines make a splitter keep more than a few chunks."""
    for piece in (b"x" * 65536, b"\0" * 65536, b"line\n" * 13107, b"\rbar " * 13107):
        splitter = Splitter()
        tracemalloc.start()
        for _ in range(512):
            for _ in splitter.feed(piece):
                pass
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1 << 20


def test_the_unfinished_line_can_be_looked_at_and_stays() -> None:
    """A partial line is given as often as it is asked for, and once more when it is complete."""
    splitter = Splitter(offset=100, line=7)
    assert [block.data for block in splitter.feed(b"one\ntw")] == [b"one\n"]
    for _ in range(2):
        partial = splitter.partial()
        assert partial is not None
        assert (partial.data, partial.offset, partial.line, partial.partial) == (b"tw", 104, 8, True)
    assert splitter.position == (104, 8)
    assert [(block.data, block.offset, block.line) for block in splitter.feed(b"o\n")] == [(b"two\n", 104, 8)]
    assert splitter.partial() is None


@pytest.mark.parametrize(
    ("data", "limit", "expected"),
    [("aä".encode(), 2, 1), (b"ab\r\nc", 3, 2), (b"abcd", 2, 2), (b"ab", 5, 2), ("a\u2028b".encode(), 3, 1)],
)
def test_a_cut_never_splits_a_character_or_a_line_end(data: bytes, limit: int, expected: int) -> None:
    """The cut moves to the left as far as it must."""
    assert cut(data, limit) == expected


@given(RAW)
@settings(max_examples=200)
def test_positions_lead_from_the_visible_text_back_to_the_raw_one(data: bytes) -> None:
    """Every visible byte stands where its position says."""
    visible = Visible(data)
    assert bytes(data[visible.raw_position(at)] for at in range(len(visible.text))) == visible.text


@pytest.mark.parametrize(
    "raw",
    [
        b"CUDA \x1b[1;31mout\x1b[0m of memory",
        b"\x1b[38;5;196mCUDA out of\x1b[K memory\x1b(B",
        b"\x1b]8;;http://x\x1b\\CUDA out of memory\x1b]8;;\x07",
        b"C\0U\0D\0A out of memory\0",
    ],
)
def test_escape_sequences_and_nuls_are_invisible(raw: bytes) -> None:
    """Colours, links, charset switches and NULs do not get between the letters."""
    assert Visible(raw).text == b"CUDA out of memory"
