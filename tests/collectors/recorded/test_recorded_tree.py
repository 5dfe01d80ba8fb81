"""Paths in a recorded tree: links stay inside, and nothing outside is ever read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aidiag.collectors.recorded import RecordedNode
from aidiag.collectors.recorded.tree import RecordedTree

LIMIT = 1 << 20


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree beside a secret."""
    (tmp_path / "secret").write_text("outside")
    top = tmp_path / "tree"
    (top / "sys/class").mkdir(parents=True)
    (top / "sys/file").write_text("inside")
    return top


@pytest.mark.parametrize(
    "target",
    [
        "../secret",
        "../../../secret",
        "../../../../../../../../etc/passwd",
        "/etc/passwd",
        "/../secret",
        "sys/../../secret",
    ],
)
def test_links_never_lead_out(tree: Path, target: str) -> None:
    """A link that points outside, relative or absolute, is looked up inside, where nothing is."""
    (tree / "sys/class/escape").symlink_to(target)

    with pytest.raises(FileNotFoundError):
        RecordedTree(tree).read("/sys/class/escape", LIMIT)
    assert not RecordedTree(tree).exists("/sys/class/escape")


@pytest.mark.parametrize("path", ["/../secret", "/sys/../../secret", "/./sys/class/../../../secret"])
def test_dots_never_lead_out(tree: Path, path: str) -> None:
    """`..` stops at the top of the tree."""
    with pytest.raises(FileNotFoundError):
        RecordedTree(tree).read(path, LIMIT)


def test_links_to_folders_outside_are_empty_names(tree: Path) -> None:
    """A folder outside can neither be listed nor read through."""
    (tree / "sys/class/net").symlink_to("/etc")

    with pytest.raises(FileNotFoundError):
        RecordedTree(tree).entries("/sys/class/net")
    with pytest.raises(FileNotFoundError):
        RecordedTree(tree).read("/sys/class/net/passwd", LIMIT)


def test_links_inside_are_followed(tree: Path) -> None:
    """Relative and absolute links lead to files of the tree, also one after the other."""
    (tree / "sys/class/relative").symlink_to("../file")
    (tree / "sys/class/absolute").symlink_to("/sys/file")
    (tree / "sys/class/twice").symlink_to("absolute")
    recorded = RecordedTree(tree)

    assert [b"inside"] * 3 == [recorded.read(f"/sys/class/{name}", LIMIT) for name in ("relative", "absolute", "twice")]
    assert "/sys/file" == recorded.link("/sys/class/absolute")


def test_links_in_a_circle_end(tree: Path) -> None:
    """A circle of links is an error, not a loop."""
    (tree / "a").symlink_to("b")
    (tree / "b").symlink_to("a")

    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        RecordedTree(tree).read("/a", LIMIT)


def test_only_regular_files_are_opened(tree: Path) -> None:
    """A FIFO does not block, a folder is not a file."""
    os.mkfifo(tree / "sys/pipe")

    with pytest.raises(OSError, match="not a regular file"):
        RecordedTree(tree).read("/sys/pipe", LIMIT)
    with pytest.raises(IsADirectoryError):
        RecordedTree(tree).read("/sys/class", LIMIT)


def test_swapped_folder_is_noticed(tree: Path) -> None:
    """A folder that becomes a link to the outside after it was looked at gives nothing away."""
    (tree / "sys/class/secret").write_text("inside")
    recorded = RecordedTree(tree)
    assert b"inside" == recorded.read("/sys/class/secret", LIMIT)
    (tree / "sys/class/secret").unlink()
    (tree / "sys/class").rmdir()
    (tree / "sys/class").symlink_to(tree.parent)

    with pytest.raises(OSError, match="leads out of the tree"):
        recorded.read("/sys/class/secret", LIMIT)


def test_earlier_reading_stays_inside(tree: Path, tmp_path: Path) -> None:
    """`before` as a link to another node's folder is not followed out of the tree."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "node.json").write_text('{"age": 60}')
    (tree / "before").symlink_to(other)

    assert RecordedNode(tree).before() is None


def test_names_of_any_bytes(tree: Path) -> None:
    """A name that is not UTF-8 can be listed and read."""
    (Path(os.fsdecode(os.fsencode(tree / "sys/class") + b"/eth\xff"))).write_text("odd")
    (name,) = RecordedTree(tree).entries("/sys/class")

    assert b"odd" == RecordedTree(tree).read(f"/sys/class/{name}", LIMIT)


@settings(max_examples=200, deadline=None)
@given(
    path=st.lists(st.sampled_from(["sys", "class", "loop", "up", "out", "file", "..", ".", "", "\0", "x\udcff"])).map(
        "/".join
    ),
    targets=st.lists(
        st.sampled_from(["..", "../..", "/", "/sys", "../../..", "loop", "up/out", "/etc/passwd", "file", "."]),
        min_size=3,
        max_size=3,
    ),
)
def test_no_path_reads_the_outside(path: str, targets: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever the path and the links, what is read is the one file of the tree, or an OSError."""
    top = tmp_path_factory.mktemp("outer") / "tree"
    (top / "sys/class").mkdir(parents=True)
    (top.parent / "file").write_text("outside")
    (top / "sys/file").write_text("inside")
    for name, target in zip(("loop", "up", "out"), targets, strict=True):
        (top / "sys" / name).symlink_to(target)

    try:
        found = RecordedTree(top).read(f"/{path}", LIMIT)
    except OSError:
        return
    assert b"inside" == found
