"""`run-<key>.json` of a host's job folder, by which an `aidiag run`, the sidecar and the collectors know of a command.

Written by `diagnose.run`, read by all: this is the one place that knows the form.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from aidiag.collectors.bounded import read_bounded

READ_LIMIT_BYTES = 4 << 20
FILES_LIMIT = 4096
AFTER_SIGNAL = 128
LAST_SIGNAL = 64

_NAME = re.compile(r"run-[0-9-]+\.json")


@dataclass(frozen=True, slots=True)
class ProcessMark:
    """A process that can be told from a later one with the same id.

    `start_ticks` is field 22 of /proc/PID/stat (proc(5)), `namespace` the inode of the process id namespace that `pid`
    counts in, `boot` the boot id of the kernel.
    """

    pid: int
    start_ticks: int
    namespace: int
    boot: str


@dataclass(frozen=True, slots=True)
class RunFile:
    """One `aidiag run`: its file is written when it starts, when its command has started, and when that ended.

    Times are Unix seconds. `exit_status` is that of the command as a shell says it (128+N after signal N); None while
    it runs, and for good where `run` itself was killed (`lost`): then nobody could ask for it. `rank` is known where
    the command is a rank itself and not a launcher. `captures` names the files of this folder that hold what the
    command printed, by stream. `meeting` is where its ranks meet those of other runs, where that is said (diagnose.run.meeting).
    Secrets in the command line are replaced.
    """

    key: str
    job: str
    host: str
    command: tuple[str, ...]
    directory: str
    started: float
    run: ProcessMark | None
    child: ProcessMark | None = None
    rank: int | None = None
    ended: float | None = None
    exit_status: int | None = None
    lost: bool = False
    seen: float = 0.0
    captures: dict[str, str] = field(default_factory=dict)
    meeting: str = ""
    version: str = ""

    @property
    def exit_code(self) -> int | None:
        """The exit status with -N for signal N, None while it is not known.

        A command that ends by itself with 128+N is taken for one that signal N ended, as shells take it.
        """
        status = self.exit_status
        if status is not None and AFTER_SIGNAL < status <= AFTER_SIGNAL + LAST_SIGNAL:
            return AFTER_SIGNAL - status
        return status


def name_of(key: str) -> str:
    """The name of the file of one run; `key` is its process id, with a number behind where two containers share it."""
    return f"run-{key}.json"


def encode_run(run: RunFile) -> bytes:
    """The content of the file of a run."""
    return msgspec.json.encode(run) + b"\n"


def read_run(path: Path) -> RunFile | None:
    """What the file of a run tells, None where it is broken, half made or not there."""
    try:
        return msgspec.json.decode(read_bounded(path, READ_LIMIT_BYTES), type=RunFile)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def read_runs(host_folder: Path) -> list[RunFile]:
    """All runs that a host's part of a job folder tells of, oldest first. Broken and half-made files are left out."""
    try:
        paths = sorted(entry for entry in host_folder.iterdir() if _NAME.fullmatch(entry.name))
    except OSError:
        return []
    found = [run for path in paths[:FILES_LIMIT] if (run := read_run(path)) is not None]
    return sorted(found, key=lambda run: run.started)
