import io
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aidiag.collectors.logs import read_log
from aidiag.collectors.logs.attribution import Owner
from aidiag.collectors.logs.compiled import Catalogue
from aidiag.collectors.logs.files import RefusedError, open_regular, owner_by_name
from aidiag.collectors.logs.reading import read_lines
from aidiag.collectors.observation import Event
from aidiag.collectors.subject import rank

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"


def test_a_file_and_a_stream_give_the_same(tmp_path: Path, catalogue: Catalogue) -> None:
    """What differs is the name of the source."""
    path = tmp_path / "job.log"
    path.write_text(f"first\n[rank1]: {OOM}\nlast without newline: {OOM}")
    from_path = list(read_log(path, job="j", catalogue=catalogue))
    from_stream = list(read_log(io.BytesIO(path.read_bytes()), job="j", catalogue=catalogue, source=str(path)))
    assert from_path == from_stream
    assert [event.place.line for event in from_path if event.place] == [2, 3]
    assert from_path[0].subject == rank(1, host="", job="j")
    assert [event.time for event in from_path] == [None, None]
    (piped, *_) = read_log(io.BytesIO(path.read_bytes()), catalogue=catalogue)
    assert piped.place is not None
    assert piped.place.source == "-"


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-be-bom", "utf-8-sig"])
def test_files_with_a_byte_order_mark_are_decoded(tmp_path: Path, catalogue: Catalogue, codec: str) -> None:
    """UTF-16 of either order becomes text, and the evidence stands in its decoded lines."""
    text = f"ä\u2028\n{OOM}\r\nend\n" * 3
    path = tmp_path / "job.log"
    data = b"\xfe\xff" + text.encode("utf-16-be") if codec == "utf-16-be-bom" else text.encode(codec)
    path.write_bytes(data)
    lines = path.read_text(encoding="utf-16" if "16" in codec else "utf-8").splitlines()
    events = list(read_log(path, catalogue=catalogue))
    assert len(events) == 3
    for event in events:
        assert event.place is not None
        assert event.place.line is not None
        assert event.place.text in lines[event.place.line - 1]


def test_a_utf16_file_may_end_anywhere(tmp_path: Path, catalogue: Catalogue) -> None:
    """Half a character at the end, or a lone surrogate, is no error."""
    data = f"{OOM}\n".encode("utf-16") + b"\x00\xd8A\x00\n\x00" + b"x"
    (event,) = read_log(io.BytesIO(data), catalogue=catalogue)
    assert event.fields["tried_bytes"] == 2 << 30


def test_reading_without_numbers(tmp_path: Path, catalogue: Catalogue) -> None:
    """It gives the same events, whose places have no line."""
    path = tmp_path / "job.log"
    noise = "step\r\n\x0c" + "x" * 100_000 + "\u2028\n" + "\0" * 20_000
    path.write_text("".join(f"{noise}{OOM}{end}" for end in ("\n", "\r", "\u2028", "\r\n", "")))
    numbered = list(read_log(path, catalogue=catalogue))
    bare = list(read_log(path, catalogue=catalogue, numbered=False))
    assert [event.place.line for event in bare if event.place] == [None] * 5
    assert [event.order for event in bare] == [event.order for event in numbered]


@given(
    st.lists(
        st.sampled_from(["a", "ü\n", "\r", "\r\n", "\v", "\x1c", "\u2028", "b" * 3000 + "\n", "\x85", "c\n" * 2000])
    ),
    st.sets(st.integers(-2, 9000), max_size=20),
)
@settings(max_examples=100, deadline=None)
def test_lines_read_by_number_are_those_of_the_text(pieces: list[str], wanted: set[int]) -> None:
    """Any lines of any text are found by their numbers, across blocks and odd line ends; others are left out."""
    text = "".join(pieces)
    lines = text.splitlines()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.write_bytes(text.encode())
        found = list(read_lines(path, wanted))

    assert [(number, lines[number - 1]) for number in sorted(wanted) if 1 <= number <= len(lines)] == found


def test_an_empty_log_has_no_events_and_a_missing_one_is_an_error(tmp_path: Path, catalogue: Catalogue) -> None:
    """Nothing found is not the same as nothing there."""
    (tmp_path / "empty.log").touch()
    assert list(read_log(tmp_path / "empty.log", catalogue=catalogue)) == []
    with pytest.raises(FileNotFoundError):
        list(read_log(tmp_path / "missing.log", catalogue=catalogue))


def test_binary_data_is_no_error(catalogue: Catalogue) -> None:
    """A core file named like a log gives no events and no failure."""
    assert list(read_log(io.BytesIO(os.urandom(1 << 20)), catalogue=catalogue)) == []


def refused(path: Path) -> str:
    """Why a path is refused."""
    with pytest.raises(RefusedError) as error:
        os.close(open_regular(path))
    return str(error.value.strerror)


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    """Links, pipes, devices, sockets and folders are refused, at once and with the reason."""
    (tmp_path / "log").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "log")
    os.mkfifo(tmp_path / "pipe")
    assert refused(tmp_path / "link") == "is a symbolic link"
    assert refused(tmp_path / "pipe") == "is a named pipe"
    assert refused(tmp_path) == "is a folder"
    assert refused(Path("/dev/null")) == "is a device"
    os.close(open_regular(tmp_path / "log"))
    before = len(list(Path("/proc/self/fd").iterdir()))
    refused(tmp_path / "pipe")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_root_does_not_follow_hard_links_to_other_users_files(tmp_path: Path) -> None:
    """A user who links a secret of root into a log folder does not get it read."""
    folder, secret = tmp_path / "logs", tmp_path / "secret"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    secret.write_text("x")
    (folder / "job.log").hardlink_to(secret)
    assert refused(folder / "job.log") == "is a hard link to another user's file"
    (folder / "own.log").write_text("x")
    os.chown(folder / "own.log", 65534, 65534)
    os.close(open_regular(folder / "own.log"))


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        ("/j/node-a/nccl.node-a.4711.log", Owner(host="node-a", pid=4711)),
        ("/j/nccl.node-a.example.org.4711.log", Owner(host="node-a.example.org", pid=4711)),
        ("/tmp/none_x/attempt_0/3/stderr.log", Owner(local_rank=3, certain=False)),
        ("/j/rank3.log", Owner(rank=3, certain=False)),
        ("/j/train_rank_012.out", Owner(rank=12, certain=False)),
        ("/j/Rank-0.txt", Owner(rank=0, certain=False)),
        ("/j/local_rank_2.log", Owner(local_rank=2, certain=False)),
        ("/j/node_rank1.log", Owner()),
        ("/j/frank3.log", Owner()),
        ("/j/job.log", Owner()),
    ],
)
def test_names_tell_whose_a_file_is(path: str, owner: Owner) -> None:
    """NCCL's own files, torchrun's log folders, and the usual names of one file a rank."""
    assert owner_by_name(Path(path)) == owner


def test_the_name_of_a_file_attributes_its_messages(tmp_path: Path, catalogue: Catalogue) -> None:
    """In `rank3.log` a message without label is rank 3's."""
    path = tmp_path / "rank3.log"
    path.write_text(OOM + "\n")
    (event,) = read_log(path, catalogue=catalogue)
    assert event.subject == rank(3, host="", job="")


def test_a_time_without_year_is_that_of_the_file(tmp_path: Path, catalogue: Catalogue) -> None:
    """The year is the one before the last change of the file."""
    path = tmp_path / "job.log"
    path.write_text(f"[rank3]:[E1130 12:00:00.5 x.cpp:1] {OOM}\n")
    os.utime(path, (1_700_000_000, 1_700_000_000))  # 14 November 2023
    (event,) = read_log(path, catalogue=catalogue)
    assert event.unix is not None
    assert event.unix == pytest.approx(1_669_809_600, abs=86_400)  # 30 November 2022


def test_of_readings_that_come_with_each_step_fewer_and_fewer_are_told(read: Callable[..., list[Event]]) -> None:
    """A long run tells hundreds of them, not as many as it has steps, and they are spread over the run."""
    log = "".join(f"step {number} max_memory_allocated {number + 1} MB\n" for number in range(4096))
    found = [event.fields["bytes"] for event in read(log) if event.kind == "memory_reading"]
    assert 64 <= len(found) <= 64 * 8
    assert found[0] == 1 << 20
    assert max(found) == 4096 << 20
