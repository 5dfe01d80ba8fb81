"""Which devices a setting takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aidiag.collectors.device_filter import parse_gloo, parse_nccl, parse_ucx


@pytest.mark.parametrize(
    ("value", "name", "port", "taken"),
    [
        ("eth0", "eth0", -1, True),
        ("eth", "eth10", -1, True),  # a prefix
        ("=eth1", "eth10", -1, False),
        ("=eth1", "eth1", -1, True),
        ("^docker,lo", "docker0", -1, False),
        ("^docker,lo", "eth0", -1, True),
        ("^=lo", "lo0", -1, True),
        ("^=lo", "lo", -1, False),
        ("=^lo", "lo", -1, False),  # the circumflex must come first: this is the exact name ^lo
        ("ib0,eth", "eth3", -1, True),
        (",,eth0,", "eth0", -1, True),
        ("mlx5_1", "mlx5_10", 1, True),
        ("=mlx5_1", "mlx5_10", 1, False),
        ("mlx5_0:1", "mlx5_0", 1, True),
        ("mlx5_0:1", "mlx5_0", 2, False),
        ("mlx5_0:", "mlx5_0", 2, True),
        ("mlx5_0:2x", "mlx5_0", 2, True),  # atoi
        ("mlx5_0:1:0:1", "mlx5_0", 1, True),  # rail and plane of NCCL 2.28
        ("^mlx5_8,mlx5_9:1", "mlx5_9", 1, False),
        ("^mlx5_8,mlx5_9:1", "mlx5_9", 2, True),
        ("", "anything", 1, True),
        ("=", "anything", 1, True),
        ("^", "anything", 1, False),
    ],
)
def test_nccl(value: str, name: str, port: int, taken: bool) -> None:
    """NCCL matches prefixes, `=` exact names, `^` leaves out, a port behind a colon counts."""
    assert taken == parse_nccl(value).includes(name, port)


def test_gloo() -> None:
    """Gloo takes exact names only; NCCL's signs mean nothing to it."""
    assert parse_gloo("eth0,ib0").includes("ib0")
    assert not parse_gloo("eth").includes("eth0")
    assert not parse_gloo("^lo").includes("eth0")


@pytest.mark.parametrize(
    ("value", "name", "port", "taken"),
    [
        ("all", "mlx5_3", 1, True),
        ("mlx5_0:1", "mlx5_0", 1, True),
        ("mlx5_0:1", "mlx5_0", 2, False),
        ("mlx5_?:1", "mlx5_7", 1, True),
        ("eth0", "eth0", -1, True),
        ("mlx5", "mlx5_0", 1, False),
        ("^mlx5_0:1", "mlx5_1", 1, True),
        ("^mlx5_0:1", "mlx5_0", 1, False),
    ],
)
def test_ucx(value: str, name: str, port: int, taken: bool) -> None:
    """UCX takes exact names and shell patterns."""
    assert taken == parse_ucx(value).includes(name, port)


@given(st.text(max_size=40), st.text(max_size=10), st.integers(-1, 5))
def test_garbage(value: str, name: str, port: int) -> None:
    """No setting makes a parser fail, and what NCCL leaves out with `^` is what it takes without."""
    for parse in (parse_gloo, parse_nccl, parse_ucx):
        parse(value).includes(name, port)
    if not value.startswith("^"):
        assert parse_nccl(value).includes(name, port) != parse_nccl(f"^{value}").includes(name, port)
