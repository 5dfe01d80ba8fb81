"""Ranks as the launchers' variables show them: processes that were given a rank, and why the shim is not in some."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aidiag.collectors.errors import HungError
from aidiag.collectors.node import Node
from aidiag.collectors.process.files import parse_stat
from aidiag.trainer_shim.identity import job_id
from aidiag.trainer_shim.launchers import PlaceInJob, place

SCAN_SECONDS = 5.0
YOUNG_SECONDS = 30.0
"""How long a process that was first seen is looked at anew with each scan: it may yet become another program (exec)."""
AGAIN_SECONDS = 60.0
"""When an older one is looked at anew that is no trainer yet, or that the shim cannot get into."""
PROCESSES_CAP = 20_000
ENVIRON_LIMIT_BYTES = 256 * 1024
INJECT = "trainer_shim/inject"
"""How the shim's folder on PYTHONPATH ends, wherever it was copied to."""

_PYTHON = re.compile(r"python[\d.]*")
_USE_ENV = "Evaluate aidiag env in the shell that starts the ranks, or attach in the script."


@dataclass(frozen=True, slots=True)
class RankProcesses:
    """The processes of a rank, with a record or without. `reason` is why the shim cannot be in it, empty where it may
    have attached or may yet attach.
    """

    job: str
    place: PlaceInJob
    pids: tuple[int, ...]
    reason: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class _Process:
    job: str
    place: PlaceInJob
    pid: int
    python: bool
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was made of a process id, when it was first and last looked at, and of which process (`start_ticks`) it
    is; that is not asked of those that are no ranks.
    """

    process: _Process | None
    start_ticks: int
    first: float
    looked: float


class LaunchedRanks:
    """Looks for them again and again; the environment of an old process is read once. `job` limits them to one job."""

    def __init__(self, node: Node, job: str | None = None) -> None:
        self._node, self._job = node, job
        self._known: dict[int, _Seen] = {}
        self._scanned = float("-inf")

    def find(self, now: float) -> list[RankProcesses]:
        """The ranks that run on this host, as the launchers' variables tell."""
        if now - self._scanned >= SCAN_SECONDS:
            self._scanned = now
            self._scan(now)
        groups: dict[tuple[str, int], list[_Process]] = {}
        for seen in self._known.values():
            if (process := seen.process) is not None:
                groups.setdefault((process.job, process.place.rank), []).append(process)
        return [_rank(group) for _, group in sorted(groups.items())]

    def _scan(self, now: float) -> None:
        try:
            pids = [int(name) for name in self._node.entries("/proc") if name.isdecimal()][:PROCESSES_CAP]
        except OSError:
            return
        self._known = {pid: self._see(pid, self._known.get(pid), now) for pid in pids}

    def _see(self, pid: int, known: _Seen | None, now: float) -> _Seen:
        """What is known of a process, looked at anew where that may have changed."""
        if known is None or known.process is None:
            if known and now - known.first >= YOUNG_SECONDS and now - known.looked < AGAIN_SECONDS:
                return known
            process = self._look(pid)
            first = known.first if known and process is None else now
            return _Seen(process, self._start_ticks(pid) if process else 0, first, now)
        start_ticks = self._start_ticks(pid)
        if start_ticks != known.start_ticks:  # the number has gone to another process
            return self._see(pid, None, now)
        settled = known.process.python and not known.process.reason
        if now - known.first < YOUNG_SECONDS or (not settled and now - known.looked >= AGAIN_SECONDS):
            return _Seen(self._look(pid), start_ticks, known.first, now)
        return known

    def _start_ticks(self, pid: int) -> int:
        """When a process started, 0 where it has ended."""
        try:
            return parse_stat(self._node.read(f"/proc/{pid}/stat")).start_ticks
        except (OSError, ValueError):
            return 0

    def _look(self, pid: int) -> _Process | None:
        node, folder = self._node, f"/proc/{pid}"
        try:
            environ = parse_environ(node.read(f"{folder}/environ", ENVIRON_LIMIT_BYTES))
            found = place(environ)
            if found.launcher == "none":
                return None
            arguments = node.read(f"{folder}/cmdline", 65536).decode("utf-8", "replace").split("\0")
            job = job_id(environ, node.link(f"{folder}/cwd"))
        except OSError:
            return None
        if self._job not in (None, job) or _is_aidiag(arguments):
            return None
        python = _PYTHON.fullmatch(arguments[0].rpartition("/")[2]) is not None
        reason, remedy = self._obstacle(folder, arguments, environ) if python else ("", "")
        return _Process(job, found, pid, python, reason, remedy)

    def _obstacle(self, folder: str, arguments: Sequence[str], environ: Mapping[str, str]) -> tuple[str, str]:
        """What keeps the shim out of a Python process, and what would let it in; empty texts where nothing does."""
        if environ.get("AIDIAG_DISABLE") == "1":
            return "AIDIAG_DISABLE=1 is set", "Unset AIDIAG_DISABLE."
        flags = _flags(arguments)
        for flag, meaning in (
            ("I", "ignores PYTHONPATH"),
            ("E", "ignores PYTHONPATH"),
            ("S", "loads no sitecustomize"),
        ):
            if flag in flags:
                return f"python -{flag} {meaning}", f"Start Python without -{flag}, or attach in the script."
        shims = [path for path in environ.get("PYTHONPATH", "").split(":") if path.rstrip("/").endswith(INJECT)]
        if not shims:
            return "PYTHONPATH does not hold the shim's folder", _USE_ENV
        try:
            there = any(self._node.exists(f"{folder}/root{path}/sitecustomize.py") for path in shims)
        except HungError as error:
            return f"the file system of {shims[0]} does not answer: {error.reason}", "See to that file system."
        if not there:
            return f"{shims[0]} is not there in its container", "Copy the shim into the image: aidiag shim export DIR."
        return "", ""


def parse_environ(data: bytes) -> dict[str, str]:
    """The variables of /proc/PID/environ; what is no assignment is left out."""
    pairs = (entry.decode("utf-8", "replace").partition("=") for entry in data.split(b"\0"))
    return {name: value for name, separator, value in pairs if separator and name}


def _flags(arguments: Sequence[str]) -> set[str]:
    """The single-letter options of a Python command line, up to the script, the module or the program text."""
    flags: set[str] = set()
    takes_value = False
    for argument in arguments[1:]:
        if takes_value:
            takes_value = False
            continue
        if not argument.startswith("-") or argument == "-" or argument.startswith("--"):
            break
        for position, letter in enumerate(argument[1:], start=2):
            if letter in "cm":
                return flags
            if letter in "WX":
                takes_value = position == len(argument)
                break
            flags.add(letter)
    return flags


def _is_aidiag(arguments: Sequence[str]) -> bool:
    """Whether a process is aidiag itself, which runs before the rank with the rank's own variables."""
    first = [argument.rpartition("/")[2] for argument in arguments[:4]]
    return "aidiag" in first


def _rank(group: Sequence[_Process]) -> RankProcesses:
    """One rank from its processes: a wrapper, the trainer and its workers have the same variables. One that the shim
    can get into speaks for all.
    """
    pythons = [process for process in group if process.python]
    chosen = next((process for process in pythons if not process.reason), (pythons or list(group))[0])
    pids = tuple(sorted(process.pid for process in group))
    return RankProcesses(chosen.job, chosen.place, pids, chosen.reason, chosen.remedy)
