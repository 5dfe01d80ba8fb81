"""How processes that are not our children end, seen through pidfds.

A pidfd becomes readable when its process ends. A waiting thread then reads the exit status, from one of two places:
/proc/PID/stat while nobody has waited for the process yet, and ioctl PIDFD_GET_INFO on the pidfd after somebody has
(Linux 6.15). Before 6.15 a parent that is quicker than the thread takes the status away.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass

from aidiag.collectors.process.files import ProcessStat, parse_stat

PIDFD_GET_INFO = 0xC040FF0B
PIDFD_INFO_EXIT = 8
PIDFD_INFO = struct.Struct("=QQ11Ii")
"""struct pidfd_info of include/uapi/linux/pidfd.h in its first size: mask, cgroup id, eleven ids, exit status."""

WATCH_LIMIT = 1024
"""Processes watched at a time; each holds a file descriptor."""


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of a watched process: when it was seen, and its wait status, None where somebody else took it away."""

    pid: int
    start_ticks: int
    time: float
    status: int | None


def exit_code(status: int) -> int:
    """The exit code of a wait status, -N for signal N."""
    return os.waitstatus_to_exitcode(status & 0xFFFF)


def reaped_status(pidfd: int) -> int | None:
    """The wait status of a process that was waited for, None where the kernel does not tell."""
    answer = bytearray(PIDFD_INFO.pack(PIDFD_INFO_EXIT, *[0] * 13))
    try:
        fcntl.ioctl(pidfd, PIDFD_GET_INFO, answer)
    except OSError:  # ENOTTY, EINVAL: an older kernel; ESRCH: reaped and not told
        return None
    mask, *_, status = PIDFD_INFO.unpack(answer)
    return status if mask & PIDFD_INFO_EXIT else None


@dataclass(slots=True)
class _Watched:
    pid: int
    start_ticks: int
    traceable: bool
    ended_at: float | None = None
    asked: int = 0


class ExitWatcher:
    """Watches processes of this machine until they end, at no cost until then.

    `monotonic` stamps the ends. One thread waits; it is started with the first process.
    """

    def __init__(self, monotonic: Callable[[], float], *, patience: int = 2) -> None:
        self._monotonic, self._patience = monotonic, patience
        self._lock = threading.Lock()
        self._watched: dict[int, _Watched] = {}
        self._exits: list[Exit] = []
        self._epoll: select.epoll | None = None
        self._bell = -1

    def watch(self, stat: ProcessStat) -> bool:
        """Watch the process that `stat` was read from. False where it is not there any more or too many are watched.

        Raises OSError where this kernel, or this Python, has no pidfds or they are forbidden.
        """
        if not hasattr(os, "pidfd_open") or not hasattr(os, "eventfd"):
            raise OSError(errno.ENOSYS, "this Python was built without pidfd_open")
        with self._lock:
            if len(self._watched) >= WATCH_LIMIT:
                return False
            epoll = self._waiting()
            try:
                pidfd = os.pidfd_open(stat.pid)
            except ProcessLookupError:
                return False
            now = _read_stat(stat.pid)  # after the pidfd was opened: the same start means the same process
            if now is None or now.start_ticks != stat.start_ticks:
                os.close(pidfd)
                return False
            self._watched[pidfd] = _Watched(stat.pid, stat.start_ticks, now.traceable or _traceable(stat.pid))
            epoll.register(pidfd, select.EPOLLIN)
            return True

    def forget(self, pid: int) -> None:
        """Watch a process no longer."""
        with self._lock:
            for pidfd in [fd for fd, watched in self._watched.items() if watched.pid == pid]:
                self._drop(pidfd)

    def take(self) -> list[Exit]:
        """The ends seen since the last call.

        One whose status nobody has taken away and that cannot be read yet is held back for a few calls.
        """
        with self._lock:
            for pidfd, watched in list(self._watched.items()):
                if watched.ended_at is not None:
                    watched.asked += 1
                    self._ended(pidfd, watched, last=watched.asked >= self._patience)
            exits, self._exits = self._exits, []
            return exits

    def close(self) -> None:
        """Watch nothing more and end the thread."""
        with self._lock:
            for pidfd in list(self._watched):
                self._drop(pidfd)
            if self._epoll is not None:
                os.eventfd_write(self._bell, 1)

    # -- with the lock held -----------------------------------------------------------------------------------------

    def _waiting(self) -> select.epoll:
        if self._epoll is None:
            self._epoll, self._bell = select.epoll(), os.eventfd(0, os.EFD_CLOEXEC)
            self._epoll.register(self._bell, select.EPOLLIN)
            threading.Thread(target=self._wait, args=(self._epoll, self._bell), name="exits", daemon=True).start()
        return self._epoll

    def _drop(self, pidfd: int) -> None:
        del self._watched[pidfd]
        if self._epoll is not None:
            with contextlib.suppress(OSError):
                self._epoll.unregister(pidfd)
        os.close(pidfd)

    def _ended(self, pidfd: int, watched: _Watched, *, last: bool) -> None:
        """Note the end of a process if its status can be read, or cannot be any more."""
        if not _is_over(pidfd):
            return  # the number of a closed pidfd, given to another process in the meantime
        status = None
        stat = _read_stat(watched.pid)
        unreaped = stat is not None and stat.start_ticks == watched.start_ticks
        if watched.ended_at is None:
            watched.ended_at = self._monotonic()
            if self._epoll is not None:
                self._epoll.unregister(pidfd)
        if stat and unreaped:
            status = stat.exit_status or (0 if watched.traceable and stat.exit_status == 0 else None)
        else:
            status, last = reaped_status(pidfd), True
        if status is not None or last:
            self._exits.append(Exit(watched.pid, watched.start_ticks, watched.ended_at, status))
            self._drop(pidfd)

    # -- in the waiting thread --------------------------------------------------------------------------------------

    def _wait(self, epoll: select.epoll, bell: int) -> None:
        while True:
            ready = [fd for fd, _ in epoll.poll()]
            with self._lock:
                if bell in ready:
                    epoll.close()
                    os.close(bell)
                    self._epoll = None
                    return
                for pidfd in ready:
                    watched = self._watched.get(pidfd)
                    if watched and watched.ended_at is None:
                        self._ended(pidfd, watched, last=False)


def _is_over(pidfd: int) -> bool:
    """Whether the process of a pidfd has ended."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(0))


def _traceable(pid: int) -> bool:
    """Whether the kernel shows us the exit status of a process: the same permission as its `exe` link."""
    try:
        return bool(os.readlink(f"/proc/{pid}/exe"))  # noqa: PTH115
    except OSError:
        return False


def _read_stat(pid: int) -> ProcessStat | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return parse_stat(file.read(4096))
    except (OSError, ValueError):
        return None
