"""Inputs made to break parsers: real ones, cut, spliced, repeated and with bytes that no one expects.

    python -m tests.fuzzing [--count 200000] [--seed 1] [--only PARSER]...

Every parser takes all inputs. An exception that it does not declare is a crash, and an input that takes longer than
HANG_SECONDS a hang: either ends the run and prints the input. What the parsers must give beside that, other tests say.
"""

from __future__ import annotations

import argparse
import bz2
import contextlib
import gzip
import io
import json
import lzma
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

from aidiag.collectors.kmsg_lines import KernelLines
from aidiag.collectors.logs.catalogue import MESSAGES, CatalogueError, read_catalogue, read_messages
from aidiag.collectors.logs.compiled import Catalogue, load_catalogue
from aidiag.collectors.logs.compressed import CompressedError, chunks
from aidiag.collectors.logs.files import owner_by_name
from aidiag.collectors.logs.lines import decode
from aidiag.collectors.logs.pattern import PatternError, expression
from aidiag.collectors.logs.prefix import read_labels, read_prefix
from aidiag.collectors.logs.reading import read_log
from aidiag.collectors.logs.stamps import Stamp
from aidiag.collectors.logs.stream import LogStream
from aidiag.diagnose.fetch import pod, slurm
from aidiag.diagnose.report.model import Report, ReportError, Unknown
from aidiag.diagnose.report.model import decode as decode_report
from aidiag.diagnose.report.model import encode as encode_report

COUNT = 200_000
HANG_SECONDS = 5
SIZE_LIMIT = 40_000

HOSTILE = [
    b"\n", b"\r", b"\r\n", b"\0", b"\0" * 300, b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\x1b[31m", b"\x1b]0;", b"\x1b", b"\x07",
    b"\x85", b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80", b"\xc2", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b"\x0b", b"\x0c", b"\x1c", b"\x9b",
    b"{", b"}", b"[", b"]", b"<", b">", b"(", b")", b"|", b"\\", b'"', b"'", b"%", b":", b",", b"=", b"#", b"-", b"_", b" ", b"\t",
    b"0", b"-1", b"9" * 30, b"1e999", b"NaN", b"0x", b"null", b"[]", b"{}", b"true", b"A" * 5000, b" " * 5000, b"((((((((",
    b"Traceback (most recent call last):\n", b'  File "/a/b.py", line 3, in f\n', b"[rank3]: ", b" 3: ", b"[1,0]<stderr>:",
    b"2026-11-30T20:18:39.5Z stdout F ", b"[default0]:", b"node-a:1:2 [0] NCCL INFO ", b"\x1f\x8b\x08", b"BZh91AY&SY",
    b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd",
]  # fmt: skip


def inputs(seeds: list[bytes], chance: random.Random) -> Iterator[bytes]:
    """Endless inputs made of `seeds`."""
    while True:
        data = chance.choice(seeds)
        for _ in range(chance.randrange(6)):
            data = _changed(data, chance.choice(seeds), chance)
        yield data[:SIZE_LIMIT]


def _changed(data: bytes, other: bytes, chance: random.Random) -> bytes:
    at, to = sorted((chance.randint(0, len(data)), chance.randint(0, len(data))))
    match chance.randrange(8):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + data[to:]
        case 2:
            return data[:at] + chance.choice(HOSTILE) + data[at:]
        case 3:
            return data[:at] + other + data[at:]
        case 4:
            return data + b"\n" + other
        case 5:
            return data[:at] + data[at:to] * chance.randrange(2, 9) + data[to:]
        case 6:
            return data[:at] + chance.randbytes(chance.randrange(1, 5)) + data[at + chance.randrange(3) :]
        case _:
            return data.replace(chance.choice(HOSTILE), chance.choice(HOSTILE), 3)


@cache
def seeds() -> list[bytes]:
    """Real inputs of every parser."""
    messages = read_catalogue()
    found = [line.encode() for one in messages for line in (*one.examples, *one.near_misses)]
    found += [wording.source.encode() for one in messages for wording in one.patterns]
    entries = [text for file in sorted(MESSAGES.glob("*.yaml")) for text in file.read_text().split("\n\n")]
    found += [text.encode() for text in entries if len(text) < 3000]
    found += [way(b"[rank1]: " + line) for line in found[:40] for way in (gzip.compress, lzma.compress, bz2.compress)]
    found += [line.decode().encode("utf-16") for line in found[:40]]
    found += [encode_report(Report(unknown=(Unknown("a", "b"),)))]
    states = [{"name": "a", "restartCount": 1, "state": {"running": {}}, "lastState": {"terminated": {}}}]
    found += [json.dumps({"status": {"containerStatuses": states, "initContainerStatuses": states}}).encode()]
    found += [
        b"\nJobId=1 JobName=a\n   JobState=FAILED Reason=x ExitCode=1:0\n   WorkDir=/tmp\n   StdOut=/tmp/a b\n"
    ] * 5
    found += ["|".join(slurm.SACCT_FIELDS).encode() + b"\nFAILED|1:0|1|a|0:0|None|x|y|z|0|n|4G||/tmp\n"] * 5
    for text in ("2026-11-30 20:18:39.5", "E1130 20:18:39.5 1 x.cc:1]", "Nov 30 20:18:39", "Mon Nov 30 20:18:39 2026"):
        found += [text.encode()] * 5
    return found + HOSTILE


@cache
def _catalogues() -> tuple[Catalogue, Catalogue]:
    return load_catalogue(), Catalogue(tuple(load_catalogue().messages.values()), hyperscan=False)


def whole_log(data: bytes) -> None:
    """A log from its first byte to its last, compressed or not."""
    with contextlib.suppress(CompressedError):
        for _ in read_log(io.BytesIO(data), catalogue=_catalogues()[0], job="j"):
            pass


def log_in_pieces(data: bytes) -> None:
    """A log that grows, looked at after each piece: the daemon's way."""
    stream = LogStream(_catalogues()[0], "x", job="j", reference=1_796_100_000.0)
    size = max(1, len(data) // 5)
    for at in range(0, len(data), size):
        for _ in stream.feed(data[at : at + size], 1.0):
            pass
        stream.flush(1.0)
    list(stream.finish(1.0))


def log_without_hyperscan(data: bytes) -> None:
    """The same on the standard library, with the same events."""
    one, other = (LogStream(which, "x", reference=1_796_100_000.0) for which in _catalogues())
    events = [[*stream.feed(data), *stream.finish()] for stream in (one, other)]
    assert events[0] == events[1], "the engines differ"


def decompression(data: bytes) -> None:
    """Any bytes behind the beginning of each format."""
    for begin in (b"", b"\x1f\x8b\x08", b"BZh91AY&SY", b"\xfd7zXZ\0"):
        with contextlib.suppress(CompressedError):
            for _ in chunks(io.BytesIO(begin + data)):
                pass


def prefix(data: bytes) -> None:
    """What stands before a message."""
    line = data.split(b"\n")[0]
    read_prefix(line, len(line))
    read_labels(line)


def stamp(data: bytes) -> None:
    """Times of every style."""
    for style in ("iso", "iso_boxed", "glog", "glog_bare", "syslog", "ctime", "epoch"):
        Stamp(style, decode(data)[:200]).unix(1_796_100_000.0)


def kernel_line(data: bytes) -> None:
    """Lines of the kernel log."""
    lines = KernelLines(told_by="log")
    for line in decode(data).splitlines():
        lines.fact(line)


def file_name(data: bytes) -> None:
    """Whose a file is."""
    name = decode(data).replace("\0", "").replace("/", "_")[:255]
    owner_by_name(Path("/j/attempt_0/1", name or "x"))


def message_pattern(data: bytes) -> None:
    """A pattern that somebody wrote."""
    with contextlib.suppress(PatternError):
        expression(decode(data)[:2000])


def catalogue_file(data: bytes) -> None:
    """A file of messages that somebody wrote."""
    with contextlib.suppress(CatalogueError):
        read_messages(decode(data), "x.yaml")


def report_file(data: bytes) -> None:
    """A report that another program wrote."""
    with contextlib.suppress(ReportError):
        decode_report(data)


def scheduler_answers(data: bytes) -> None:
    """What scontrol, sacct and kubectl print."""
    text = decode(data)
    list(slurm._of_scontrol([text]))
    list(slurm._of_sacct([text]))
    with contextlib.suppress(ValueError, AttributeError, TypeError, KeyError):  # what fetch_pod expects
        list(pod._containers(json.loads(data)))


PARSERS: dict[str, Callable[[bytes], None]] = {
    parse.__name__: parse
    for parse in (
        whole_log, log_in_pieces, log_without_hyperscan, decompression, prefix, stamp, kernel_line, file_name, message_pattern,
        catalogue_file, report_file, scheduler_answers,
    )
}  # fmt: skip


class FuzzError(AssertionError):
    """A parser crashed or hung, with the input."""


class _Hang(BaseException):
    """Comes out of a parser that does not end, whatever it catches itself."""


def fuzz(name: str, count: int, seed: int) -> float:
    """Give a parser `count` inputs; the seconds of the slowest. Raises FuzzError."""
    parse, slowest = PARSERS[name], 0.0
    made: Iterable[bytes] = inputs(seeds(), random.Random(f"{name} {seed}"))

    def hangs(_signal: int, _frame: object) -> None:
        raise _Hang(f"no end after {HANG_SECONDS} s")

    before = signal.signal(signal.SIGALRM, hangs)
    try:
        for number, data in zip(range(count), made, strict=False):
            began = time.perf_counter()
            signal.alarm(HANG_SECONDS)
            try:
                parse(data)
            except (Exception, _Hang) as problem:
                file = Path(tempfile.gettempdir(), f"fuzz-{name}-{seed}-{number}")
                file.write_bytes(data)
                raise FuzzError(f"{name}, seed {seed}, input {number} ({file}): {problem!r}") from problem
            finally:
                signal.alarm(0)
            slowest = max(slowest, time.perf_counter() - began)
    finally:
        signal.signal(signal.SIGALRM, before)
    return slowest


def main() -> None:
    """Run all parsers, print a line for each."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--count", type=int, default=COUNT)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--only", action="append", choices=PARSERS)
    given = options.parse_args()
    failed = False
    for name in given.only or PARSERS:
        began = time.perf_counter()
        try:
            slowest = fuzz(name, given.count, given.seed)
        except FuzzError as error:
            failed = True
            print(f"{name:24} {error}", flush=True)
            continue
        seconds = time.perf_counter() - began
        print(f"{name:24} {given.count:9,} inputs in {seconds:6.0f} s, slowest {1000 * slowest:6.1f} ms", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
