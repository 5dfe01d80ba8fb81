"""A place for records, and a way to read them back."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from aidiag.trainer_shim import folder


@pytest.fixture
def memory_folder() -> Iterator[Path]:
    """A folder of ours on a tmpfs, as a trainer would use it."""
    path = Path(tempfile.mkdtemp(prefix="aidiag-test-", dir="/dev/shm"))
    fd = os.open(path, os.O_RDONLY)
    try:
        if not folder.is_tmpfs(fd):
            pytest.skip("/dev/shm is not a tmpfs here")
        yield path
    finally:
        os.close(fd)
        shutil.rmtree(path)
