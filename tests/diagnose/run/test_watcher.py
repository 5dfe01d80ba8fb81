"""Starting the sidecar."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from aidiag.diagnose.job.folder import make
from aidiag.diagnose.job.locks import lock
from aidiag.diagnose.run.task import Task
from aidiag.diagnose.run.watcher import Watcher


def test_a_linked_log_is_not_written_and_costs_no_diagnosis(tmp_path: Path) -> None:
    """What the sidecar prints goes through no link; it is lost, that is said, and the sidecar starts and has its lock."""
    _, folder = make(tmp_path, "j", "a")
    (tmp_path / "precious").write_text("precious")
    folder.sidecar_log.symlink_to(tmp_path / "precious")
    command = (sys.executable, "-c", "import pathlib, sys; print(1); pathlib.Path(sys.argv[4], 'done').touch()")
    task = SimpleNamespace(job="j", environ={}, settings=SimpleNamespace(sidecar=command, port=None, lang=""))
    said: list[str] = []
    watcher = Watcher(folder, cast(Task, task), said.append)
    free = lock(folder.sidecar_lock)
    assert free is not None
    watcher.start(free)
    give_up = time.monotonic() + 60
    while not watcher.finished() and time.monotonic() < give_up:
        time.sleep(0.02)

    assert "precious" == (tmp_path / "precious").read_text()
    assert ["what the sidecar prints is lost"] == [text.split(" (")[0] for text in said]
    assert (folder.path / "done").exists()
