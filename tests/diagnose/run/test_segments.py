from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from aidiag.diagnose.run.segments import Segments

HEAD, PART, PARTS = 400, 300, 3
CHUNKS = st.binary(max_size=150) | st.binary(max_size=20).map(lambda data: data + b"\n") | st.just(b"x" * 900)
MARK = re.compile(rb"\[aidiag\] byte (\d+) of the output; [^\n]*\n")


def write(folder: Path, chunks: list[bytes]) -> tuple[bytes, list[tuple[int, bytes]]]:
    """What a capture of these chunks holds: the head, and for each later part where it begins and what it says."""
    segments = Segments(folder / "stdout-7.log", head_bytes=HEAD, part_bytes=PART, parts=PARTS)
    for chunk in chunks:
        segments.write(chunk)
    segments.close()
    head = (folder / "stdout-7.log").read_bytes()
    later = []
    for path in sorted(folder.glob("stdout-7.*.log"), key=lambda path: int(path.suffixes[-2][1:])):
        match = MARK.match(path.read_bytes())
        assert match, path
        later.append((int(match[1]), path.read_bytes()[match.end() :]))
    return head, later


def test_short_output_is_kept_as_it_is(tmp_path: Path) -> None:
    """Below the limit a capture is one file with the very bytes."""
    head, later = write(tmp_path, [b"a\n", b"\0\xff", b"end"])

    assert b"a\n\0\xffend" == head
    assert [] == later


def test_long_output_keeps_head_and_newest(tmp_path: Path) -> None:
    """Of long output the first lines and the last lines are there, whole, and the marks say what lies between."""
    lines = [b"line %04d\n" % number for number in range(1000)]
    head, later = write(tmp_path, lines)

    assert head.startswith(b"".join(lines[:39]))
    assert b"[aidiag] the output goes on in stdout-7.2.log" in head
    assert PARTS == len(later)
    assert b"".join(lines).endswith(b"".join(text for _, text in later))
    assert lines[-1] == later[-1][1][-10:]
    assert 10_000 - sum(len(text) for _, text in later) == later[0][0]


@settings(max_examples=60, deadline=None)
@given(st.lists(CHUNKS, max_size=60))
def test_what_is_kept_is_a_part_of_the_stream_at_its_place(chunks: list[bytes]) -> None:
    """Whatever is written: the head is the stream's beginning, each part stands where its mark says, the parts join
    up to the stream's end, and the size is bounded.
    """
    stream = b"".join(chunks)
    with TemporaryDirectory() as folder:
        head, later = write(Path(folder), chunks)
        size = sum(path.stat().st_size for path in Path(folder).iterdir())

    shown = head.rsplit(b"[aidiag] the output goes on", 1)[0] if later else head
    assert stream.startswith((shown, shown.removesuffix(b"\n")))
    for begin, text in later:
        assert stream[begin : begin + len(text)] == text
    for (begin, text), (following, _) in pairwise(later):
        assert begin + len(text) == following
    if later:
        assert len(stream) == later[-1][0] + len(later[-1][1])
    assert size <= 2 * (HEAD + PARTS * PART) + 1000


def test_output_without_line_ends(tmp_path: Path) -> None:
    """A stream that has none, in chunks larger than a part, is cut into full parts."""
    head, later = write(tmp_path, [b"x" * 1000] * 10)

    assert head.count(b"x") > HEAD / 2
    assert all(len(text) > PART / 2 for _, text in later[:-1])
    assert later[-1][1].endswith(b"x")


def test_an_interrupted_capture_goes_on_behind_its_end(tmp_path: Path) -> None:
    """A second keeper appends to what the first one kept, with a mark between."""
    path = tmp_path / "stdout-7.log"
    for text in (b"first\nhalf", b"second\n"):
        segments = Segments(path)
        segments.write(text)
        segments.close()

    assert re.fullmatch(rb"first\nhalf\n?\[aidiag\] [^\n]*taken up again[^\n]*\nsecond\n", path.read_bytes())
