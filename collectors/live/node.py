"""A node that answers from this machine."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

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
from aidiag.collectors.helper.pool import HelperPool
from aidiag.collectors.live.files import LiveFiles, make_helpers
from aidiag.collectors.node import READ_LIMIT_BYTES, Earlier, decode

if TYPE_CHECKING:
    from aidiag.collectors.live.verbs import LiveVerbs


class LiveNode:
    """This machine now.

    In a container that has the host's file systems mounted somewhere, `root`, `proc` and `sys` say where. `name` is
    the host's name where the own one (a pod's) is not it. `nvml` gives what NVML answers, None where nobody asks it.
    """

    def __init__(
        self,
        root: str = "/",
        *,
        proc: str | None = None,
        sys: str | None = None,
        name: str = "",
        helpers: HelperPool | None = None,
        nvml: Callable[[], Mapping[str, Any]] | None = None,
    ) -> None:
        top = root.rstrip("/")
        self._helpers = helpers or make_helpers()
        self._files = LiveFiles(root, proc or f"{top}/proc", sys or f"{top}/sys", self._helpers)
        self._name = name or os.uname().nodename
        self._nvml = nvml
        self._verbs: LiveVerbs | None = None

    @property
    def name(self) -> str:
        """The name that was given, else the one of uname(2)."""
        return self._name

    @property
    def live(self) -> bool:
        """True."""
        return True

    def elapsed(self) -> float:
        """CLOCK_MONOTONIC."""
        return time.monotonic()

    def before(self) -> Earlier | None:
        """None: earlier readings of this machine are not kept yet."""
        return None

    def close(self) -> None:
        """End the helpers."""
        self._helpers.close()
        if self._verbs:
            self._verbs.close()

    # -- files ------------------------------------------------------------------------------------------------------

    def read(self, path: str, limit_bytes: int = READ_LIMIT_BYTES) -> bytes:
        """The first bytes of a file."""
        return self._files.read(path, limit_bytes)

    def text(self, path: str) -> str:
        """A small text file."""
        return decode(self._files.read(path, READ_LIMIT_BYTES))

    def read_all(self, paths: Iterable[str]) -> Mapping[str, bytes | OSError]:
        """Each file, or why it cannot be read."""
        return self._files.read_all(paths, READ_LIMIT_BYTES)

    def entries(self, path: str) -> Sequence[str]:
        """The sorted names in a folder."""
        return self._files.entries(path)

    def link(self, path: str) -> str:
        """Where a symbolic link points."""
        return self._files.link(path)

    def exists(self, path: str) -> bool:
        """Whether a path is there."""
        return self._files.exists(path)

    # -- the system and the job's process ---------------------------------------------------------------------------

    def kernel(self) -> Kernel:
        """uname(2)."""
        answer = os.uname()
        return Kernel(answer.sysname, answer.release, answer.machine)

    def time(self) -> float:
        """CLOCK_REALTIME."""
        return time.time()

    def clock_state(self) -> ClockState:
        """adjtimex(2)."""
        from aidiag.collectors.live.adjtimex import read_clock_state

        return read_clock_state()

    def euid(self) -> int:
        """geteuid(2)."""
        return os.geteuid()

    def environ(self) -> Mapping[str, str]:
        """The environment of this process."""
        return os.environ

    def limits(self) -> Mapping[str, Limit]:
        """getrlimit(2) of this process."""
        import resource

        def bound(number: int) -> int | None:
            return None if number == resource.RLIM_INFINITY else number

        names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
        both = {name: resource.getrlimit(getattr(resource, name)) for name in names}
        return {name: Limit(bound(soft), bound(hard)) for name, (soft, hard) in both.items()}

    def sysconf(self, name: str) -> int:
        """sysconf(3)."""
        try:
            return os.sysconf(name)
        except ValueError:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), f"sysconf({name})") from None

    def affinity(self) -> frozenset[int]:
        """sched_getaffinity(2)."""
        return frozenset(os.sched_getaffinity(0))

    def statvfs(self, mount: str) -> FileSystemUse:
        """statvfs(3), of foreign file systems in a helper."""
        return self._files.statvfs(mount)

    def device_access(self, path: str) -> str:
        """access(2) by the effective user."""
        Path(path).stat()
        return "".join(
            letter
            for letter, mode in (("r", os.R_OK), ("w", os.W_OK))
            if os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)
        )

    def shared_memory(self) -> Sequence[SharedMemoryFile]:
        """The files in /dev/shm; who maps them is not looked up."""
        now, found = time.time(), []
        with os.scandir("/dev/shm") as folder:
            for file in folder:
                try:
                    facts = file.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                found.append(SharedMemoryFile(file.name, facts.st_size, facts.st_uid, now - facts.st_mtime, None))
        return found

    # -- network ----------------------------------------------------------------------------------------------------

    def addresses(self) -> Mapping[str, Sequence[str]]:
        """By rtnetlink."""
        from aidiag.collectors.live import netlink

        return netlink.addresses()

    def routes(self) -> Sequence[Route]:
        """By rtnetlink."""
        from aidiag.collectors.live import netlink

        return netlink.routes()

    def sockets(self) -> Sequence[Socket]:
        """From /proc/net/tcp and tcp6; owners are not looked up."""
        from aidiag.collectors.live.sockets import parse_sockets

        tables = {"tcp": self.text("/proc/net/tcp")}
        if self.exists("/proc/net/tcp6"):
            tables["tcp6"] = self.text("/proc/net/tcp6")
        return [socket for protocol, table in tables.items() for socket in parse_sockets(protocol, table)]

    def resolve(self, name: str) -> Sequence[str]:
        """getaddrinfo(3) in a helper; an address stands for itself."""
        if not set(name) - set("0123456789.") or ":" in name:
            return [name]
        return self._files.resolve(name)

    def rdma_port(self, device: str, port: int) -> VerbsPort:
        """ibv_query_port(3) in a helper."""
        if self._verbs is None:
            from aidiag.collectors.live.verbs import LiveVerbs

            self._verbs = LiveVerbs()
        return self._verbs.port(device, port)

    def ethtool_statistics(self, interface: str) -> Mapping[str, int]:
        """Not read yet."""
        _not_read_yet(f"ethtool -S {interface}")

    def dcb(self, interface: str) -> Mapping[str, Any]:
        """Not read yet."""
        _not_read_yet(f"DCB of {interface}")

    # -- services and software --------------------------------------------------------------------------------------

    def services(self) -> Mapping[str, Service]:
        """Not read yet."""
        _not_read_yet("systemd units")

    def kernel_messages(self) -> Sequence[KernelMessage]:
        """All that /dev/kmsg still holds."""
        from aidiag.collectors.kmsg_device import KernelLog

        log = KernelLog()
        try:
            lines, _ = log.take()
        finally:
            log.close()
        now = time.monotonic()
        return [KernelMessage(max(0.0, now - line.seconds), line.level, line.text) for line in lines]

    def packages(self) -> Mapping[str, str]:
        """Not read yet."""
        _not_read_yet("packages")

    def interpreter(self) -> Mapping[str, Any]:
        """Not read yet."""
        _not_read_yet("the job's Python")

    def container(self) -> Mapping[str, Any] | None:
        """Not read yet."""
        _not_read_yet("container")

    def kubernetes(self) -> Mapping[str, Any] | None:
        """Not read yet."""
        _not_read_yet("Kubernetes objects")

    def command(self, line: str) -> CommandResult:
        """Not read yet: nothing is run."""
        _not_read_yet(line)

    def nvml(self) -> Mapping[str, Any]:
        """What the given `nvml` says."""
        if self._nvml is None:
            _not_read_yet("NVML")
        return self._nvml()


def _not_read_yet(call: str) -> NoReturn:
    raise OSError(errno.ENOSYS, "not read from a live host yet", call)
