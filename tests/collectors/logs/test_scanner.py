import io
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aidiag.collectors.logs.catalogue import Message, read_catalogue
from aidiag.collectors.logs.compiled import Catalogue
from aidiag.collectors.logs.scanner import TEXT_LIMIT, Scanner
from aidiag.collectors.logs.splitter import LINE_CAP_BYTES, Block
from aidiag.collectors.logs.stream import LogStream
from aidiag.collectors.observation import Event

MESSAGE_TEXTS = [line for one in read_catalogue() for line in one.examples]
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"

NOISE = st.sampled_from(
    [
        "\n", "\r\n", "\r", "\r\r\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\0", "\0" * 20000,
        "\x1b[31m", "\x1b[0m", "\x1b]0;t\x07", "\x1b", "█", "ä", "\U0001f600", "[rank3]: ", " 3: ", "x" * 17000, "a", "\t",
        "Traceback (most recent call last):\n", '  File "/a/b.py", line 3, in f\n', "Failures:\n", "\ufeff",
    ]
).map(str.encode)  # fmt: skip
PIECE = st.sampled_from(MESSAGE_TEXTS).map(str.encode) | NOISE | st.binary(max_size=6)


def spliced(pieces: list[tuple[bytes, int]]) -> bytes:
    """The pieces one into the other, each at a place of its own choice within the one before."""
    data = b""
    for piece, back in pieces:
        at = max(0, len(data) - back)
        data = data[:at] + piece + data[at:]
    return data


LOGS = st.lists(st.tuples(PIECE, st.just(0) | st.integers(0, 40)), max_size=25).map(spliced)


@given(LOGS, st.integers(1, 70_000))
@settings(max_examples=400, deadline=None)
def test_evidence_is_true(catalogue: Catalogue, data: bytes, size: int) -> None:
    """For any bytes in any chunks: the text of every event stands in the line that it names."""
    lines = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", errors="backslashreplace").read().splitlines()
    stream = LogStream(catalogue, "job.log")
    events = [event for at in range(0, len(data), size) for event in stream.feed(data[at : at + size])]
    for event in [*events, *stream.finish()]:
        assert event.place is not None
        assert event.place.line is not None
        assert event.place.text
        assert event.place.text in lines[event.place.line - 1]


@given(LOGS, st.integers(1, 300))
@settings(max_examples=200, deadline=None)
def test_chunks_make_no_difference(read: Callable[..., list[Event]], data: bytes, size: int) -> None:
    """A log gives the same events whether it comes at once or in small pieces."""
    assert read(data, [data[at : at + size] for at in range(0, len(data), size)]) == read(data)


@given(LOGS)
@settings(max_examples=300, deadline=None)
def test_both_engines_find_the_same(catalogue: Catalogue, plain_catalogue: Catalogue, data: bytes) -> None:
    """Hyperscan and the standard library give identical lines, messages, places and fields."""

    def found(which: Catalogue) -> list[object]:
        return [
            (line.number, line.offset, [(hit.wording.order, hit.start, hit.end, hit.fields) for hit in line.hits])
            for line in Scanner(which).scan(Block(data, 0, 1))
        ]

    assert found(catalogue) == found(plain_catalogue)


@pytest.mark.usefixtures("needs_hyperscan")
def test_both_engines_find_the_same_over_the_whole_catalogue(
    catalogue: Catalogue, plain_catalogue: Catalogue, messages: tuple[Message, ...]
) -> None:
    """Every example, near miss and fixed text of the catalogue, alone and behind others, gives the same on both engines."""
    texts = [text for one in messages for text in (*one.examples, *one.near_misses)]
    texts += [literal for one in messages for wording in one.patterns for literal in wording.literals]
    lines = [texts[(17 * number) % len(texts)] + second for number, second in enumerate(texts)]
    data = "\n".join([*texts, *lines]).encode() + b"\n"
    one, other = Scanner(catalogue), Scanner(plain_catalogue)
    assert type(one._prefilter) is not type(other._prefilter)
    found = [
        [(line.number, [(hit.wording.order, hit.start, hit.end, hit.fields) for hit in line.hits]) for line in lines]
        for lines in (one.scan(Block(data, 0, 1)), other.scan(Block(data, 0, 1)))
    ]
    assert len(found[0]) > len(lines) / 2
    assert found[0] == found[1]


def test_colours_do_not_hide_a_message_and_stay_in_the_evidence(read: Callable[..., list[Event]]) -> None:
    """Matching sees the visible text, evidence quotes the line as it stands in the file."""
    line = "\x1b[31mtorch.OutOfMemoryError\x1b[0m: CUDA \x1b[1mout\x1b[0m of memory. Tried to allocate 2.00 GiB"
    (event,) = read(f"first\n{line}\nlast\n")
    assert event.place is not None
    assert (event.fields["tried_bytes"], event.place.line, event.place.text) == (2 << 30, 2, line)


def test_carriage_returns_count_as_lines(read: Callable[..., list[Event]]) -> None:
    """An error behind a progress bar has the number that splitlines gives it."""
    (event,) = read("start\r\n" + "".join(f"\r {n}%" for n in range(50)) + "\r" + OOM + "\r\nend\r\n")
    assert event.place is not None
    assert (event.place.line, event.place.text) == (53, OOM)


def test_a_message_beyond_the_cap_of_a_line_is_not_seen(read: Callable[..., list[Event]]) -> None:
    """Lines are looked at up to 16 KiB, and the next line is read again."""
    long = "x" * LINE_CAP_BYTES + OOM
    (event,) = read(f"{long}\n{OOM}\n")
    assert event.place is not None
    assert event.place.line == 2
    (event,) = read(f"{'x' * (LINE_CAP_BYTES - 1000)} {OOM} {'y' * 100_000}\n")
    assert event.place is not None
    assert len(event.place.text) == TEXT_LIMIT
    assert OOM in event.place.text


@pytest.mark.parametrize("errors", ["strict", "replace", "ignore", "backslashreplace", "surrogateescape"])
def test_evidence_stands_in_its_line_however_that_is_decoded(read: Callable[..., list[Event]], errors: str) -> None:
    """Bytes that are not UTF-8 (a log in Latin-1, a character that was torn) bound the quotation."""
    data = b"first\nf\xfcr \xff " + OOM.encode() + b" \xe2\x96 caf\xe9 \xc3\xa9\n" + f"é {OOM} é\n".encode()
    (torn, whole) = read(data)
    assert torn.place is not None
    assert whole.place is not None
    assert torn.place.text.strip() == OOM
    assert whole.place.text == f"é {OOM} é"
    lines = [line.decode("utf-8", errors) for line in data.split(b"\n")] if errors != "strict" else [OOM] * 3
    assert torn.place.text in lines[1]


def test_rows_of_a_utf16_file_without_mark_are_still_matched(read: Callable[..., list[Event]]) -> None:
    """NULs between ASCII letters are invisible."""
    (event,) = read(f"{OOM}\n".encode("utf-16-le"))
    assert event.fields["tried_bytes"] == 2 << 30


def test_two_messages_glued_into_one_line_are_both_found(read: Callable[..., list[Event]]) -> None:
    """Writers without line discipline do not hide each other's messages."""
    events = read(f"a:1:2 [0] NCCL INFO Connected all rings{OOM}\n")
    assert [event.kind for event in events] == ["nccl_progress", "cuda_out_of_memory"]


def test_memory_is_constant_on_a_large_log(catalogue: Catalogue) -> None:
    """A log of 64 MiB with a message every two thousand lines is read in a few megabytes."""
    block = (
        b"".join(b"step %d loss 0.123456 throughput 1234.5 tokens/s\n" % n for n in range(2000)) + OOM.encode() + b"\n"
    )
    stream = LogStream(catalogue, "job.log")
    list(stream.feed(block))
    tracemalloc.start()
    count = sum(1 for _ in range((64 << 20) // len(block)) for _ in stream.feed(block))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == (64 << 20) // len(block)
    assert peak < 4 << 20


def channels(channel: int, rank: int) -> str:
    """The line of one channel of a rank."""
    return f"node-a:{10 + rank}:99 [{rank}] NCCL INFO Channel {channel:02d}/0 : {rank}[{rank}] -> 9[1] via P2P/CUMEM\n"


@pytest.mark.parametrize("engine", ["catalogue", "plain_catalogue"])
def test_what_repeats_itself_is_told_once(engine: str, request: pytest.FixtureRequest) -> None:
    """Of the channels from a process to a peer the first is told; another process, peer or way is told again."""
    stream = LogStream(request.getfixturevalue(engine), "job.log")
    log = "".join(channels(channel, rank) for channel in range(24) for rank in range(2))
    events = list(stream.feed((log + log).encode()))
    assert [(event.fields["comm_rank"], event.fields["channel"]) for event in events] == [(0, "00/0"), (1, "00/0")]
    assert [event.place.line for event in events if event.place] == [1, 2]
    other = channels(0, 1).replace("P2P/CUMEM", "NET/Socket/0")
    (event,) = stream.feed((log + other + other).encode())
    assert event.fields["transport"] == "NET/Socket/0"
    assert event.place is not None
    assert event.place.line == 3 * 48 + 1


def test_other_messages_of_a_line_that_repeats_itself_are_found(read: Callable[..., list[Event]]) -> None:
    """Only the repeating message is passed over, not what was glued to it."""
    line = channels(0, 1).rstrip("\n")
    events = read(f"{line}\n{line}{OOM}\n{line}\n")
    assert [event.kind for event in events] == ["nccl_channel", "cuda_out_of_memory"]
