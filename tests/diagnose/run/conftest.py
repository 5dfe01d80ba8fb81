"""Running `aidiag run` as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from aidiag.collectors.run_files import RunFile
from aidiag.diagnose.job.folder import HostFolder
from aidiag.diagnose.job.runs import read_runs

ROOT = Path(__file__).resolve().parents[3]
STAND_IN = Path(__file__).with_name("stand_in_sidecar.py")
DROPPED = ("AIDIAG_", "NCCL_", "SLURM_", "MASTER_")


@dataclass
class Aidiag:
    """`aidiag run` in a folder of its own, with a stand-in for the sidecar."""

    folder: Path
    environ: dict[str, str]
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def line(self, *command: str, options: Sequence[str] = ()) -> list[str]:
        """The command line of a run."""
        sidecar = f"{sys.executable} {STAND_IN}"
        return [sys.executable, "-m", "aidiag", "run", "--sidecar-command", sidecar, *options, "--", *command]

    def run(self, *command: str, options: Sequence[str] = (), **more: Any) -> subprocess.CompletedProcess[bytes]:
        """Run to the end; output is captured unless said otherwise."""
        if "stdout" not in more and "stderr" not in more:
            more["capture_output"] = True
        more = {"env": self.environ, "cwd": self.folder, "timeout": 120, **more}
        return subprocess.run(self.line(*command, options=options), check=False, **more)

    def start(self, *command: str, options: Sequence[str] = (), **more: Any) -> subprocess.Popen[bytes]:
        """Start a run in a process group of its own."""
        more = {"env": self.environ, "cwd": self.folder, "start_new_session": True, **more}
        process = subprocess.Popen(self.line(*command, options=options), **more)
        self.processes.append(process)
        return process

    def python(self, code: str) -> tuple[str, ...]:
        """A command that runs Python code."""
        return (sys.executable, "-c", code)

    @property
    def host(self) -> HostFolder:
        """The host's part of the only job folder."""
        (path,) = self.folder.glob("aidiag-*/*/")
        return HostFolder(path)

    def runs(self) -> list[RunFile]:
        """The run files of the only job folder; none while there is no folder."""
        return [run for path in self.folder.glob("aidiag-*/*/") for run in read_runs(HostFolder(path))]

    def sidecars_started(self) -> int:
        """How many sidecars have lived."""
        return self.host.sidecar_log.read_text().count("started ")


@pytest.fixture
def aidiag(tmp_path: Path) -> Iterator[Aidiag]:
    """A place to run `aidiag run` in. What still lives afterwards is ended."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(DROPPED)}
    work = tmp_path / "work"
    work.mkdir()
    place = Aidiag(work, {**environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path / "home")})
    yield place
    for run in place.runs():
        if run.child is not None and run.ended is None:
            with suppress(ProcessLookupError):
                os.kill(run.child.pid, 9)
    for process in place.processes:
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        process.kill()
        process.wait()


def wait_for(reached: Callable[[], Any], what: str, seconds: float = 60.0) -> Any:
    """Wait until something is the case, and return it; the time is only there to end a broken test."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := reached():
            return found
        time.sleep(0.02)
    raise AssertionError(f"never happened: {what}")


@pytest.fixture(name="wait_for")
def wait_for_fixture() -> Callable[..., Any]:
    """`wait_for(reached, what)`."""
    return wait_for
