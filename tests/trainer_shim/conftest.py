"""A place for records, a way to run programs with the shim injected, and a way to read what they left."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from aidiag.trainer_shim import folder
from aidiag.trainer_shim.record import Record, parse_file_name, read_record

ROOT = Path(__file__).resolve().parents[2]
FAKE = Path(__file__).resolve().parent / "programs" / "fake"
LAUNCHER_NAMES = ("RANK", "WORLD_SIZE", "LOCAL_", "SLURM_", "OMPI_", "PMI_", "AIDIAG_", "PYTHON", "MASTER_", "TORCH")


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


class Injected:
    """Programs that run with the shim on PYTHONPATH, and beside it a stand-in for torch that is quick to import."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ: dict[str, str] = {}
        self.path = [ROOT / "trainer_shim" / "inject", FAKE]

    def env(self) -> dict[str, str]:
        """The whole environment of a program."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHER_NAMES)}
        return {
            **clean,
            "PYTHONPATH": os.pathsep.join(map(str, self.path)),
            "AIDIAG_DIR": str(self.folder),
            "AIDIAG_JOB_ID": "test",
            "OMP_NUM_THREADS": "1",
            **self.environ,
        }

    def run(
        self, program: str, *options: str, python: str = sys.executable, prefix: Sequence[str] = (), check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run the text of a program to its end."""
        return subprocess.run(
            [*prefix, python, *options, "-c", program],
            env=self.env(), cwd="/", capture_output=True, text=True, timeout=120, check=check,
        )  # fmt: skip

    def records(self) -> list[Record]:
        """The records that were left, oldest first."""
        paths = sorted(self.folder.glob("*.record"), key=lambda path: path.stat().st_ctime_ns)
        return [read_record(str(path)) for path in paths]

    def off_codes(self) -> list[str]:
        """Why shims were off."""
        names = [parse_file_name(path.name) for path in self.folder.glob("*.off")]
        return [name.code for name in names if name is not None]


@pytest.fixture
def injected(memory_folder: Path) -> Injected:
    """Runs programs with the shim injected."""
    return Injected(memory_folder)
