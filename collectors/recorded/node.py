"""A node that answers from a folder: a recorded host, replayed as if this process ran on it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from aidiag.collectors.answers import (
    ClockState,
    CommandResult,
    FileSystemUse,
    Kernel,
    KernelMessage,
    Limit,
    Route,
    Service,
    SharedMemoryFile,
    Socket,
    VerbsPort,
)
from aidiag.collectors.cpus import parse_cpu_list
from aidiag.collectors.errors import CollectorError
from aidiag.collectors.node import READ_LIMIT_BYTES, Earlier, decode
from aidiag.collectors.recorded import shapes
from aidiag.collectors.recorded.answers import RecordedAnswers
from aidiag.collectors.recorded.tree import RecordedTree


class RecordedNode:
    """The node in the folder `tree`: `sys/`, `proc/`, `etc/`, `node.json`, `nvml.json` and, in `before/`, an earlier
    reading of its counters. docs/recorded-node.md has the format. Raises CollectorError where the folder holds none.
    """

    def __init__(self, tree: Path) -> None:
        if not tree.is_dir():
            raise CollectorError(f"{tree} is not a folder")
        self._tree = RecordedTree(tree)
        if not any(map(self._tree.exists, ("/node.json", "/nvml.json", "/proc", "/sys"))):
            raise CollectorError(
                f"{tree} holds no recorded node",
                "give a folder with sys/, proc/ and node.json; docs/recorded-node.md has the format",
            )
        self._answers = RecordedAnswers(self._tree)
        if self._tree.exists("/node.json"):
            self._answers.part("node.json")  # a broken one is told at once

    @property
    def name(self) -> str:
        """The recorded host name, else that of the folder."""
        try:
            return self._answers.take("gethostname()", shapes.word, "hostname")
        except OSError:
            return self._tree.top.name

    @property
    def live(self) -> bool:
        """False."""
        return False

    def elapsed(self) -> float:
        """Seconds that the answers so far took when they were recorded."""
        return self._answers.elapsed()

    def before(self) -> Earlier | None:
        """The reading in `before/`."""
        if not self._tree.exists("/before/node.json"):
            return None
        earlier = EarlierNode(self._tree.below("/before"), self.name)
        try:
            return Earlier(earlier, earlier.age_seconds())
        except OSError:
            return None

    def close(self) -> None:
        """Nothing to end."""

    # -- files ------------------------------------------------------------------------------------------------------

    def read(self, path: str, limit_bytes: int = READ_LIMIT_BYTES) -> bytes:
        """The first bytes of a file of the tree."""
        return self._tree.read(path, limit_bytes)

    def text(self, path: str) -> str:
        """A small text file of the tree."""
        return decode(self._tree.read(path, READ_LIMIT_BYTES))

    def read_all(self, paths: Iterable[str]) -> Mapping[str, bytes | OSError]:
        """Each file, or why it cannot be read."""
        found: dict[str, bytes | OSError] = {}
        for path in paths:
            try:
                found[path] = self._tree.read(path, READ_LIMIT_BYTES)
            except OSError as error:
                found[path] = error
        return found

    def entries(self, path: str) -> Sequence[str]:
        """The sorted names in a folder of the tree."""
        return self._tree.entries(path)

    def link(self, path: str) -> str:
        """Where a link of the tree points."""
        return self._tree.link(path)

    def exists(self, path: str) -> bool:
        """Whether a path is in the tree."""
        return self._tree.exists(path)

    # -- the system and the job's process ---------------------------------------------------------------------------

    def kernel(self) -> Kernel:
        """uname(2) as recorded."""
        return self._answers.take("uname()", shapes.kernel, "uname")

    def time(self) -> float:
        """The moment of the recording."""
        return self._answers.take("clock_gettime()", float, "time")

    def clock_state(self) -> ClockState:
        """adjtimex(2) as recorded."""
        return self._answers.take("adjtimex()", shapes.clock_state, "adjtimex")

    def euid(self) -> int:
        """The user of the recording."""
        return self._answers.take("geteuid()", int, "euid")

    def environ(self) -> Mapping[str, str]:
        """The recorded environment of the job."""
        return self._answers.take("environment of the job", shapes.texts, "environ")

    def limits(self) -> Mapping[str, Limit]:
        """The recorded limits of the job's shell."""
        return self._answers.take("getrlimit()", shapes.limits, "limits")

    def sysconf(self, name: str) -> int:
        """sysconf(3) as recorded."""
        return self._answers.take(f"sysconf({name})", int, "sysconf", name)

    def affinity(self) -> frozenset[int]:
        """sched_getaffinity(2) as recorded."""
        return self._answers.take("sched_getaffinity()", parse_cpu_list, "sched_getaffinity")

    def statvfs(self, mount: str) -> FileSystemUse:
        """statvfs(3) as recorded."""
        return self._answers.take(f"statvfs({mount})", shapes.file_system_use, "statvfs", mount)

    def device_access(self, path: str) -> str:
        """access(2) as recorded. Raises FileNotFoundError for a node that is not there."""
        if path not in self._answers.take("access()", dict, "dev"):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self._answers.take(f"access({path})", shapes.word, "dev", path)

    def shared_memory(self) -> Sequence[SharedMemoryFile]:
        """The recorded files in /dev/shm."""
        return self._answers.take("files in /dev/shm", shapes.shared_memory, "shm")

    # -- network ----------------------------------------------------------------------------------------------------

    def addresses(self) -> Mapping[str, Sequence[str]]:
        """The recorded addresses."""
        return self._answers.take("addresses by netlink", shapes.lists, "addresses")

    def routes(self) -> Sequence[Route]:
        """The recorded routes."""
        return self._answers.take("routes by netlink", shapes.routes, "routes")

    def sockets(self) -> Sequence[Socket]:
        """The recorded sockets."""
        return self._answers.take("sockets", shapes.sockets, "sockets")

    def resolve(self, name: str) -> Sequence[str]:
        """getaddrinfo(3) as recorded."""
        return self._answers.take(f"getaddrinfo({name})", shapes.words, "getaddrinfo", name)

    def rdma_port(self, device: str, port: int) -> VerbsPort:
        """ibv_query_port(3) as recorded."""
        call = f"ibv_query_port({device}, {port})"
        return self._answers.take(call, shapes.verbs_port, "ibv_query_port", device, str(port))

    def ethtool_statistics(self, interface: str) -> Mapping[str, int]:
        """The recorded counters of the driver."""
        return self._answers.take(f"ethtool -S {interface}", shapes.numbers, "ethtool_statistics", interface)

    def dcb(self, interface: str) -> Mapping[str, Any]:
        """The recorded bridging settings."""
        return self._answers.take(f"DCB of {interface}", dict, "dcb", interface)

    # -- services and software --------------------------------------------------------------------------------------

    def services(self) -> Mapping[str, Service]:
        """The recorded units."""
        return self._answers.take("systemd units", shapes.services, "services")

    def kernel_messages(self) -> Sequence[KernelMessage]:
        """The recorded kernel log."""
        return self._answers.take("/dev/kmsg", shapes.kernel_messages, "kmsg")

    def packages(self) -> Mapping[str, str]:
        """The recorded packages."""
        return self._answers.take("packages", shapes.texts, "packages")

    def interpreter(self) -> Mapping[str, Any]:
        """What the job's Python said."""
        return self._answers.take("the job's Python", dict, "interpreter")

    def container(self) -> Mapping[str, Any] | None:
        """The recorded container."""
        return self._answers.take("container", shapes.optional, "container")

    def kubernetes(self) -> Mapping[str, Any] | None:
        """The recorded Kubernetes objects."""
        return self._answers.take("kubernetes", shapes.optional, "kubernetes")

    def command(self, line: str) -> CommandResult:
        """The recorded output of a command."""
        return self._answers.take(line, shapes.command, "commands", line)

    def nvml(self) -> Mapping[str, Any]:
        """What NVML answered; the answers of single calls are as they stand in the file."""
        return self._answers.part("nvml.json")


class EarlierNode(RecordedNode):
    """The reading of the counters in `before/` of a recording."""

    def __init__(self, tree: RecordedTree, name: str) -> None:
        self._tree, self._name = tree, name
        self._answers = RecordedAnswers(tree)

    @property
    def name(self) -> str:
        """The name of the node that it is an earlier reading of."""
        return self._name

    def age_seconds(self) -> float:
        """How long before the recording it was taken."""
        return self._answers.take("age of the earlier reading", float, "age")
