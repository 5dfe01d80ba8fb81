import bz2
import gzip
import io
import lzma
import random
import subprocess
import sys
import tracemalloc
import types
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aidiag.collectors.logs import read_log
from aidiag.collectors.logs.attribution import Owner
from aidiag.collectors.logs.compiled import Catalogue
from aidiag.collectors.logs.compressed import PIECE_BYTES, CompressedError, chunks
from aidiag.collectors.logs.files import owner_by_name
from aidiag.collectors.logs.reading import read_lines
from tests.real_parts import require

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
WAYS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress}
way = pytest.mark.parametrize("ending", WAYS)


class Pipe(io.RawIOBase):
    """Gives at most `most` bytes a time, as a pipe may."""

    def __init__(self, data: bytes, most: int) -> None:
        self._data = io.BytesIO(data)
        self._most = most

    def read(self, size: int = -1) -> bytes:
        """At most `most` bytes."""
        return self._data.read(min(size, self._most) if size >= 0 else self._most)


def text_of(data: bytes, most: int = PIECE_BYTES) -> bytes:
    """What reading gives."""
    return b"".join(chunks(Pipe(data, most)))  # type: ignore[arg-type]


@way
def test_evidence_stands_in_the_decompressed_text(tmp_path: Path, catalogue: Catalogue, ending: str) -> None:
    """Line numbers are those of the text, also where members follow one another; the name of the file stays."""
    text = "".join(f"step {n}\r\n" for n in range(30_000)) + f"[rank1]: {OOM}\n" + "tail\n" * 10
    path = tmp_path / f"job.log.{ending}"
    path.write_bytes(WAYS[ending](text.encode()) + WAYS[ending](f"{OOM}\n".encode()))
    lines = (text + OOM).splitlines()

    events = list(read_log(path, catalogue=catalogue))

    places = [event.place for event in events if event.place]
    assert [place.line for place in places] == [30_001, 30_012]
    assert {place.source for place in places} == {str(path)}
    assert all(place.text in lines[(place.line or 0) - 1] for place in places)
    assert dict(read_lines(path, [30_001, 30_012, 99_999])) == {30_001: lines[30_000], 30_012: OOM}


@given(st.binary(max_size=3000), st.integers(1, 50), st.sampled_from(sorted(WAYS)), st.integers(1, 3))
@settings(max_examples=150, deadline=None)
def test_any_bytes_come_back_in_any_pieces(data: bytes, most: int, ending: str, members: int) -> None:
    """From a pipe that gives single bytes, too; with NULs behind, as tapes and xz pad them."""
    packed = WAYS[ending](data) * members
    assert data * members == text_of(packed, most)
    if ending != "bz2":
        assert data * members == text_of(packed + b"\0" * 64, most)


@way
def test_a_file_that_is_cut_short_gives_what_it_holds(ending: str) -> None:
    """And says so at its end: the writer may be at it still."""
    chance = random.Random(3)
    text = b"".join(b"%d %s\n" % (n, chance.randbytes(30).hex().encode()) for n in range(40_000))
    packed = WAYS[ending](text)
    found = b""
    with pytest.raises(CompressedError, match="is cut short"):
        for piece in chunks(io.BytesIO(packed[: len(packed) * 3 // 4])):
            found += piece
    assert text.startswith(found)
    assert len(found) > len(text) / 4


@way
def test_damage_is_an_error_after_what_came_before(catalogue: Catalogue, ending: str) -> None:
    """The events of the whole part are told, then the reason."""
    packed = WAYS[ending](f"{OOM}\n".encode())
    for behind, words in ((packed[:8] + b"\xff" * 50, "behind"), (b"no such data", "behind"), (packed[:12], "cut")):
        events = []
        with pytest.raises(CompressedError, match=words):
            for event in read_log(io.BytesIO(packed + behind), catalogue=catalogue):
                events.append(event.kind)
        assert events == ["cuda_out_of_memory"]
    with pytest.raises(CompressedError, match="damaged"):
        text_of(packed[:20] + bytes(255 - byte for byte in packed[20:]))


@pytest.mark.parametrize(
    "text", [b"", b"\x1f", b"\x1f\x8b", b"BZh9 is no bzip2", b"BZh", b"\xfd7zX", b"\x28\xb5", b"plain\n"]
)
def test_what_only_begins_alike_is_plain(text: bytes) -> None:
    """Magic numbers are looked at as a whole, by whatever pieces they come."""
    assert text_of(text) == text_of(text, 1) == text


@pytest.mark.parametrize("codec", ["utf-16", "utf-8"])
@way
def test_compressed_utf16_is_text(catalogue: Catalogue, ending: str, codec: str) -> None:
    """A log of PowerShell that was compressed."""
    (event,) = read_log(io.BytesIO(WAYS[ending](f"ü\n{OOM}\n".encode(codec))), catalogue=catalogue)
    assert event.place is not None
    assert (event.place.line, event.place.text) == (2, OOM)


@way
def test_a_bomb_is_read_in_constant_memory(ending: str) -> None:
    """What grows a thousandfold is given piece by piece."""
    packed = WAYS[ending](b"0" * (64 << 20))
    tracemalloc.start()
    size = sum(len(piece) for piece in chunks(io.BytesIO(packed)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size == 64 << 20
    assert peak < 12 << 20  # the dictionary of xz is 8 MiB


def test_an_xz_file_that_wants_gigabytes_is_refused() -> None:
    """Its dictionary counts, not its size; that of `xz -9` is still read."""
    text = b"line\n" * 100
    greedy = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 30}]
    with pytest.raises(CompressedError, match="more memory"):
        text_of(lzma.compress(text, filters=greedy))
    assert text == text_of(lzma.compress(text, preset=9))


def test_zstd_without_a_library_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to do."""
    for module in ("compression.zstd", "backports.zstd", "pyzstd"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(CompressedError, match="zstd, for which this Python has no library") as error:
        text_of(b"\x28\xb5\x2f\xfd" + bytes(20))
    assert "unzstd" in error.value.remedy


def test_zstd_is_read_where_a_library_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever of the libraries it is: they have one interface."""

    class Stand:
        eof, unused_data, needs_input = False, b"", True

        def decompress(self, data: bytes, max_length: int) -> bytes:
            self.eof = True
            return data[4:].upper()

    library = types.ModuleType("pyzstd")
    library.ZstdDecompressor = Stand  # type: ignore[attr-defined]
    for module in ("compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, "pyzstd", library)
    assert text_of(b"\x28\xb5\x2f\xfdabc") == b"ABC"


def test_zstd_for_real(tmp_path: Path) -> None:
    """What the zstd program writes, two frames."""
    pytest.importorskip("backports.zstd", reason="pip install backports.zstd")
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"{name}\n" * 100_000)
        subprocess.run([require("zstd"), "-q", name], cwd=tmp_path, check=True)
    packed = (tmp_path / "a.zst").read_bytes() + (tmp_path / "b.zst").read_bytes()
    assert text_of(packed, 7) == b"a\n" * 100_000 + b"b\n" * 100_000


def test_how_much_was_read_is_told(catalogue: Catalogue) -> None:
    """In bytes as they lie in the file: what a progress bar shows."""
    for data in (b"x\n" * 100_000, gzip.compress(random.Random(1).randbytes(300_000))):
        told: list[int] = []
        list(read_log(io.BytesIO(data), catalogue=catalogue, read=told.append))
        assert sum(told) == len(data)
        assert len(told) > 1


def test_a_compressed_file_is_still_its_ranks() -> None:
    """The ending that compressing gave it counts for nothing."""
    assert owner_by_name(Path("/j/nccl.node-a.4711.log.gz")) == Owner(host="node-a", pid=4711)
    assert owner_by_name(Path("/tmp/x/attempt_0/3/stderr.log.xz")) == Owner(local_rank=3, certain=False)
