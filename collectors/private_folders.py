"""The folders of trainer shims in the mounts of containers.

They are reached through /proc/PID/root, whose file systems may be of somebody's own making or on a server that is dead:
whoever walks over them may wait for ever. So a helper walks, and holds the folders that lie in memory; we open what it
holds, which touches nothing on the way.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence

from aidiag.collectors.errors import CollectorError
from aidiag.collectors.helper.pool import HelperPool
from aidiag.collectors.live.files import make_helpers, opened
from aidiag.collectors.record_folders import PARENTS, Folder

LOOK_SECONDS = 5.0
"""How often the helper is asked again; in between the folders stay open."""


class PrivateFolders:
    """Keeps the folders of processes in other mount namespaces open. `chosen` is one more place to look at in each."""

    def __init__(
        self,
        proc: str = "/proc",
        *,
        chosen: str | None = None,
        helpers: HelperPool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._proc, self._helpers, self._clock = proc, helpers, clock
        self._wanted = [*([chosen] if chosen else []), *(f"{parent}/{prefix}*" for parent, prefix in PARENTS)]
        self._open: list[tuple[str, int]] = []
        self._looked = float("-inf")

    def folders(self, pids: Callable[[], Sequence[int]]) -> Iterator[Folder]:
        """The folders of the processes that `pids` gives, each to be closed by the caller; a process whose file
        systems do not answer has none.
        """
        now = self._clock()
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._release()
            for pid in pids():
                with contextlib.suppress(CollectorError, OSError):
                    self._take(pid)
        for path, fd in self._open:
            with contextlib.suppress(OSError):
                yield Folder(path, os.dup(fd))

    def close(self) -> None:
        """Close the folders and end the helper."""
        self._release()
        if self._helpers:
            self._helpers.close()

    def _take(self, pid: int) -> None:
        process = f"{self._proc}/{pid}"
        if self._helpers is None:
            self._helpers = make_helpers()
        answer = self._helpers.ask(f"the root of process {pid}", "hold", process, self._wanted)
        for path, link, device, inode in opened(answer, process):
            fd = os.open(link, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            facts = os.fstat(fd)
            if (facts.st_dev, facts.st_ino) == (device, inode):
                self._open.append((f"{process}/root{path}", fd))
            else:  # the helper has let it go meanwhile, and holds another
                os.close(fd)

    def _release(self) -> None:
        for _, fd in self._open:
            os.close(fd)
        self._open.clear()
