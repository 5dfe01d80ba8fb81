"""Lines made to be slow. No test here measures time: an exponential or cubic expression would run into pytest's timeout."""

import re

import pytest

from aidiag.collectors.logs.catalogue import read_catalogue
from aidiag.collectors.logs.compiled import Catalogue
from aidiag.collectors.logs.prefix import read_labels, read_prefix
from aidiag.collectors.logs.splitter import LINE_CAP_BYTES
from aidiag.collectors.logs.stream import LogStream

WORDINGS = [wording for one in read_catalogue() for wording in one.patterns]


def bombs(wording_source: str) -> list[bytes]:
    """Lines of full length that begin a pattern over and over and never finish it."""
    pieces = [piece for piece in re.split(r"<[^<>{}]*>|[{}|]", wording_source) if piece]
    fill = [b" ", b"9", b"x", b"(", b"1.5 GiB ", b"0x1 "]
    made = [b"".join(piece.encode() for piece in pieces[:n]) for n in range(1, len(pieces) + 1)]
    made += [one + filler * 3 for one in made for filler in fill]
    return [(one * (LINE_CAP_BYTES // len(one) + 1))[:LINE_CAP_BYTES] for one in made]


@pytest.mark.parametrize("wording", [pytest.param(one, id=f"{n}") for n, one in enumerate(WORDINGS)])
def test_no_pattern_is_slow_on_lines_made_for_it(wording: object) -> None:
    """Every expression on every line that repeats its own parts."""
    expression = re.compile(wording.expression.encode())  # type: ignore[attr-defined]
    for line in bombs(wording.source):  # type: ignore[attr-defined]
        for _ in zip(range(16), expression.finditer(line), strict=False):
            pass


def test_the_twin_that_would_hang_is_refused() -> None:
    """A pattern that these lines do blow up does not get past the gate (tests of gate.py)."""
    slow = re.compile(rb"Channel \d\d/\d\d :\s*((?:\d+\s*)+)$")
    assert slow.search(b"Channel 00/02 : 0000000000") is not None


@pytest.mark.parametrize(
    "line",
    [
        b"Channel 00/02 : " + b"0" * 10_000 + b"x",
        b"a:1" * 5000,
        b"1:2:3 [4] " * 1600,
        b"[" * LINE_CAP_BYTES,
        b"[rank1]: " * 1800,
        b"x." * 8000 + b": CUDA error: y",
        b"\x1b[" * 8000,
        b"\x1b]" + b"a" * 16000,
        b"NCCL WARN " * 1600,
        b"CUDA out of memory. Tried to allocate 1 GiB (GPU 0; " * 300,
        b"Traceback (most recent call last):" * 400,
        b"A" * 16000 + b"Error: CUDA error: x",
        b"-" * 16000,
    ],
)
def test_no_prefix_and_no_scan_is_slow(catalogue: Catalogue, line: bytes) -> None:
    """Whole lines through everything."""
    read_prefix(line, len(line))
    read_labels(line)
    stream = LogStream(catalogue, "x")
    for _ in range(3):
        list(stream.feed(line + b"\n"))
