"""Namespaces of the processes of this host: private mounts to look into, and process ids of containers."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from aidiag.trainer_shim import owner as owners
from aidiag.trainer_shim.owner import Owner

SEARCH_SECONDS = 10.0
"""How often new processes are looked at."""
SEARCH_AGAIN_SECONDS = 1.0
"""The least time between searches where a record's process is not known yet."""
FORGET_SEARCHES = 6
"""After so many searches all processes are looked at anew: a number may have gone to another process."""
PROCESSES_CAP = 20_000
MOUNTS_CAP = 64

_NSPID = re.compile(rb"^NSpid:\s*(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Process:
    mounts: int
    pids: int
    inner_pid: int | None


@dataclass(slots=True)
class Namespaces:
    """What is known of other processes' namespaces, kept for a while; `proc` and `clock` can be a test's.

    Processes of other users are seen by root alone. A namespace that cannot be looked into is not there for us.
    """

    proc: str = "/proc"
    clock: Callable[[], float] = time.monotonic
    here: Owner = field(init=False)
    _own_mounts: int = field(init=False)
    _known: dict[int, _Process] = field(init=False, default_factory=dict)
    _hosts: dict[tuple[int, int], int] = field(init=False, default_factory=dict)
    _seen: set[int] = field(init=False, default_factory=set)
    _searched: float = field(init=False, default=float("-inf"))
    _searches: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.here = owners.this_process(self.proc)
        self._own_mounts = os.stat(f"{self.proc}/self/ns/mnt").st_ino

    def private_mounts(self) -> list[int]:
        """One process id for each mount namespace that is not ours, at most MOUNTS_CAP."""
        self._search(SEARCH_SECONDS)
        first: dict[int, int] = {}
        for pid, process in sorted(self._known.items()):
            if process.mounts != self._own_mounts:
                first.setdefault(process.mounts, pid)
        return list(first.values())[:MOUNTS_CAP]

    def host_pid(self, owner: Owner) -> int | None:
        """The process id here of an owner, None where it has ended or cannot be seen."""
        if owner.boot_id != self.here.boot_id:
            return None
        if owner.pid_namespace == self.here.pid_namespace:
            pid: int | None = owner.pid
        else:
            key = (owner.pid_namespace, owner.pid)
            if key not in self._hosts:
                self._search(SEARCH_AGAIN_SECONDS)
            pid = self._hosts.get(key)
        return pid if pid is not None and owners.read_start_ticks(pid, self.proc) == owner.start_ticks else None

    def alive(self, owner: Owner) -> bool | None:
        """Whether an owner runs; None where its process-id namespace has never been seen from here."""
        told = owners.lives(owner, self.here, self.proc)
        if told is not None:
            return told
        pid = self.host_pid(owner)
        if pid is None:
            return False if owner.pid_namespace in self._seen else None
        return owners.lives(self.here._replace(pid=pid, start_ticks=owner.start_ticks), self.here, self.proc)

    def _search(self, every_seconds: float) -> None:
        now = self.clock()
        if now - self._searched < every_seconds:
            return
        self._searched = now
        self._searches += 1
        try:
            pids = [int(name) for name in os.listdir(self.proc) if name.isdecimal()][:PROCESSES_CAP]
        except OSError:
            return
        known = {} if self._searches % FORGET_SEARCHES == 0 else self._known
        self._known = {pid: process for pid in pids if (process := known.get(pid) or self._look(pid)) is not None}
        self._hosts = {
            (process.pids, process.inner_pid): pid
            for pid, process in self._known.items()
            if process.inner_pid is not None
        }
        self._seen.update(process.pids for process in self._known.values())

    def _look(self, pid: int) -> _Process | None:
        folder = f"{self.proc}/{pid}"
        try:
            mounts, pids = os.stat(f"{folder}/ns/mnt").st_ino, os.stat(f"{folder}/ns/pid").st_ino
            inner = None
            if pids != self.here.pid_namespace:
                with open(f"{folder}/status", "rb") as file:
                    match = _NSPID.search(file.read(8192))
                inner = int(match[1].split()[-1]) if match else None
        except (OSError, ValueError, IndexError):
            return None
        return _Process(mounts, pids, inner)
