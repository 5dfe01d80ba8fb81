"""The parsers of /proc text."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aidiag.collectors.process.files import (
    STATES,
    parse_open_files_limit,
    parse_pids,
    parse_stat,
    parse_status,
)

names = st.binary(min_size=0, max_size=15).filter(lambda name: b"\n" not in name and b"\0" not in name)


@settings(max_examples=200)
@given(names, st.sampled_from(sorted(STATES)), st.integers(1, 1 << 22), st.integers(0, 1 << 60))
def test_stat_with_any_name(name: bytes, state: str, pid: int, start: int) -> None:
    """The fields are right whatever the name of the process holds: blanks, parentheses, bytes that are no text."""
    fields = [state.encode(), *[b"%d" % number for number in range(4, 22)], b"%d" % start, b"1", b"7"]
    stat = parse_stat(b"%d (%s) " % (pid, name) + b" ".join(fields) + b"\n")
    assert (stat.pid, stat.parent_pid, stat.start_ticks, stat.threads) == (pid, 4, start, 20)
    assert stat.state == STATES[state]
    assert stat.resident_bytes == 7 * os.sysconf("SC_PAGE_SIZE")
    assert stat.exit_status is None and not stat.traceable


@settings(max_examples=300)
@given(st.binary(max_size=300))
def test_stat_of_garbage(data: bytes) -> None:
    """Anything else is refused as ValueError, never with another error."""
    with contextlib.suppress(ValueError):
        parse_stat(data)


def test_own_stat() -> None:
    """The file of this very process gives what the interpreter says."""
    stat = parse_stat(Path("/proc/self/stat").read_bytes())
    assert stat.pid == os.getpid() and stat.parent_pid == os.getppid()
    assert stat.traceable and not stat.ended
    assert stat.resident_bytes > 1 << 20 and stat.cpu_seconds > 0


def test_addresses_that_are_hidden() -> None:
    """Where the kernel hides the addresses, its exit status of 0 means nothing."""
    text = b"7 (x) Z 1 " + b" ".join([b"0"] * 18) + b" 0 0 0 1 1 0" + b" 0" * 23 + b" 0"
    assert not parse_stat(text).traceable


def test_limits() -> None:
    """The soft limit is the first number, and `unlimited` is none."""
    line = b"Max open files            %s               1048576              files     \n"
    assert parse_open_files_limit(b"Limit  Soft\n" + line % b"1024") == 1024
    assert parse_open_files_limit(line % b"unlimited") is None
    with pytest.raises(ValueError):
        parse_open_files_limit(b"Limit  Soft\n")


def test_status_and_children() -> None:
    """Fields of status keep their text, and children are numbers between blanks."""
    assert parse_status(b"Name:\tpy:thon\nNSpid:\t7123\t12\n")["NSpid"] == "7123\t12"
    assert parse_pids(b"12 13 \n") == (12, 13)
    assert parse_pids(b"") == ()
