"""Reading a process of a node, and telling "it is gone" from "it is hidden from us"."""

from __future__ import annotations

import os

from aidiag.collectors.errors import NotPermittedError
from aidiag.collectors.node import Node
from aidiag.collectors.process.files import ProcessStat, parse_pids, parse_stat

HIDDEN_REMEDY = "run aidiag as root or as the user of the job, or mount /proc without hidepid"


def read_stat(node: Node, pid: int) -> ProcessStat | None:
    """A process now, None where there is none of this number.

    Raises NotPermittedError where there is one that this user may not see (mount option hidepid of /proc).
    """
    try:
        return parse_stat(node.read(f"/proc/{pid}/stat"))
    except PermissionError as error:
        raise NotPermittedError(f"process {pid} is another user's: {error.strerror}", HIDDEN_REMEDY) from error
    except FileNotFoundError:
        if node.live and _may_not_signal(pid):
            raise NotPermittedError(f"process {pid} runs, and /proc does not show it", HIDDEN_REMEDY) from None
        return None
    except (OSError, ValueError):  # ESRCH: it ended between open and read
        return None


def read_children(node: Node, pid: int, more: tuple[int, ...] = ()) -> list[ProcessStat]:
    """The children that the main thread of a process started, and those of `more` that are its children too.

    The kernel lists children by the thread that started them; loader workers started by other threads are known from
    the record. Children that cannot be read are left out.
    """
    try:
        listed = parse_pids(node.read(f"/proc/{pid}/task/{pid}/children"))
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        listed = ()
    found = []
    for child in dict.fromkeys((*listed, *more)):
        try:
            stat = read_stat(node, child)
        except NotPermittedError:
            continue
        if stat and stat.parent_pid == pid:
            found.append(stat)
    return found


def _may_not_signal(pid: int) -> bool:
    """Whether there is a process that this user may not signal."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return False
