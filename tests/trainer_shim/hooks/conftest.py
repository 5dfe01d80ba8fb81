"""An attached trainer within the test process: torch is imported once for all tests of the hooks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import aidiag.trainer_shim as shim
from aidiag.trainer_shim.record import Record, read_record
from aidiag.trainer_shim.session import Session, session
from aidiag.trainer_shim.timeline import Timeline

torch = pytest.importorskip("torch")


class Trainer:
    """The attached session and what a reader sees of it."""

    def __init__(self, folder: Path, session: Session) -> None:
        self._folder = folder
        self.session = session

    @property
    def timeline(self) -> Timeline:
        """The account of this trainer."""
        assert self.session.timeline is not None
        return self.session.timeline

    @property
    def hooks(self) -> Any:
        """All hooks."""
        return self.session.hooks

    @property
    def roots(self) -> list[Any]:
        """The modules that carry hooks."""
        found: list[Any] = self.hooks.torch.discovery.roots.modules()
        return found

    def record(self) -> Record:
        """The record, with everything up to now in it."""
        self.timeline.write_state(self.timeline.clock())
        (path,) = self._folder.glob("*.record")
        record = read_record(str(path))
        assert 0 == record.state.hook_errors, record.notes
        return record


@pytest.fixture
def trainer(memory_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trainer]:
    """A trainer that has attached, and lets go of torch at the end."""
    monkeypatch.setenv("AIDIAG_DIR", str(memory_folder))
    monkeypatch.setenv("AIDIAG_JOB_ID", "test")
    if "torch._dynamo.utils" in sys.modules:  # what earlier tests have compiled keeps the shim away from modules
        sys.modules["torch._dynamo.utils"].counters.clear()
    session.__init__()  # type: ignore[misc] # a process has one session: this one starts anew
    assert shim.attach(), session.reason
    yield Trainer(memory_folder, session)
    shim.detach()
    session.__init__()  # type: ignore[misc]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Two cores are shared with others."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
