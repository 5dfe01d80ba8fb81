"""The mount table: which file systems may block, and which one a path lies in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aidiag.collectors.mounts import mount_of, parse_mounts

TABLE = r"""22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro
30 22 0:50 / /home rw,relatime - nfs4 filer:/home rw,vers=4.2
31 22 0:51 / /with\040blank ro - fuse.sshfs a:/b rw
32 30 0:52 / /home/fast rw - xfs /dev/sdb rw
33 22 0:53 / /net rw - autofs auto rw
34 22 0:54 / /over rw - xfs /dev/sdc rw
35 22 0:55 / /over rw - lustre mgs:/fs rw
broken line
36 22 0:56"""


def test_lines_are_parsed() -> None:
    """Point, kind, source and both sets of options are read; blanks in names are unescaped; broken lines are left out."""
    mounts = {mount.point: mount for mount in parse_mounts(TABLE)}

    assert 7 == len(parse_mounts(TABLE))
    assert ("fuse.sshfs", "a:/b") == (mounts["/with blank"].kind, mounts["/with blank"].source)
    assert {"rw", "relatime", "errors=remount-ro"} == mounts["/"].options
    assert ("/", "259:2") == (mounts["/"].root, mounts["/"].device)


@pytest.mark.parametrize(
    ("path", "may_block"),
    [
        ("/etc/hosts", False),
        ("/home", True),
        ("/home/user/data", True),
        ("/homes", False),
        ("/home/fast/data", False),
        ("/with blank/x", True),
        ("/net/anything", True),
        ("/over/x", True),
    ],
)
def test_path_belongs_to_the_innermost_mount(path: str, may_block: bool) -> None:
    """The longest mount point counts, and of two on one point the later one."""
    mount = mount_of(path, parse_mounts(TABLE))

    assert mount is not None
    assert may_block == mount.may_block


@given(st.text(alphabet=" -/\\0145\nabc:", max_size=200))
def test_garbage_is_no_mount_table(text: str) -> None:
    """No text makes the parser fail."""
    for mount in parse_mounts(text):
        assert mount.kind
