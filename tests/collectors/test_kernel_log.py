"""The kernel log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aidiag.collectors.answers import KernelMessage
from aidiag.collectors.kernel_log import parse_record, read_kernel_log


def test_record_is_parsed() -> None:
    """Level, age and text are read; escaped bytes are unescaped and stay visible; dictionary lines are dropped."""
    record = b"3,1234,5000000,-;NVRM: Xid (PCI:0000:52:00): 79\\x0a\\xff\n SUBSYSTEM=pci\n"

    assert KernelMessage(2.5, "err", "NVRM: Xid (PCI:0000:52:00): 79\n\\xff") == parse_record(record, 7.5)


@pytest.mark.parametrize("record", [b"", b"no semicolon", b"a,b,c;text", b"6,1;text", b";"])
def test_broken_record_is_none(record: bytes) -> None:
    """A line that is no record gives nothing."""
    assert parse_record(record, 1.0) is None


@given(st.binary(max_size=100), st.binary(max_size=50))
def test_garbage_never_fails(head: bytes, text: bytes) -> None:
    """No bytes make the parser fail."""
    parse_record(head, 0.0)
    message = parse_record(b"6,1,2,-;" + text, 0.0)

    assert message is not None
    assert "info" == message.level


def test_missing_log_is_an_error(tmp_path: Path) -> None:
    """A container without /dev/kmsg says so."""
    with pytest.raises(FileNotFoundError):
        read_kernel_log(str(tmp_path / "kmsg"))


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="/dev/kmsg may not be read here")
def test_live_log_is_in_order() -> None:
    """The records of this machine come oldest first."""
    ages = [message.age_seconds for message in read_kernel_log()]

    assert ages == sorted(ages, reverse=True)
