"""Where facts about a host come from: the live host, or a folder that holds a recorded one.

Collectors ask a Node and never touch the file system or a system call themselves, so that a whole sick host can be
replayed (`aidiag check --root TREE`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

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

__all__ = ["READ_LIMIT_BYTES", "Earlier", "FileSystemUse", "Limit", "Node", "decode", "printable"]

READ_LIMIT_BYTES = 1 << 20


def decode(data: bytes) -> str:
    """The text of a small file without its trailing white space; bytes that are not UTF-8 are escaped."""
    return data.decode(errors="backslashreplace").rstrip()


def printable(name: str) -> str:
    """A name from `Node.entries` as people may see it: bytes that are not UTF-8 and control characters are escaped."""
    text = name.encode(errors="surrogateescape").decode(errors="backslashreplace")
    return "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in text)


class Node(Protocol):
    """The facts of one host.

    Every method raises OSError where the host gives no answer (errno says why; ENODATA: not in the recording, ENOSYS:
    not read from a live host yet), PermissionError or errors.NotPermittedError where this user may not ask,
    errors.HungError where the call does not return, and errors.UnavailableError where the thing asked about is not part
    of this host.
    """

    @property
    def name(self) -> str:
        """The host's name, as findings print it."""

    @property
    def live(self) -> bool:
        """True for this machine now, False for a recording."""

    def elapsed(self) -> float:
        """Seconds on a clock that runs while the node answers: take it before and after a call to time the call.
        A recording moves it by the time that its answers took.
        """

    def before(self) -> Earlier | None:
        """An earlier reading of the counters, None where they were never measured before."""

    def close(self) -> None:
        """End the helper processes. The node may be asked again."""

    # -- files ------------------------------------------------------------------------------------------------------

    def read(self, path: str, limit_bytes: int = READ_LIMIT_BYTES) -> bytes:
        """The first `limit_bytes` of a file, path as on the host (`/sys/...`)."""

    def text(self, path: str) -> str:
        """A small text file without its trailing white space; undecodable bytes are escaped."""

    def read_all(self, paths: Iterable[str]) -> Mapping[str, bytes | OSError]:
        """Several small files of one device at once: the bytes of each, or why it could not be read. Raises HungError
        where one of them does not return.
        """

    def entries(self, path: str) -> Sequence[str]:
        """The sorted names in a folder; undecodable bytes are kept as surrogates, so that the name can be used."""

    def link(self, path: str) -> str:
        """Where a symbolic link points, as it is written."""

    def exists(self, path: str) -> bool:
        """Whether a path is there; False where it cannot be looked at."""

    # -- the system and the job's process ---------------------------------------------------------------------------

    def kernel(self) -> Kernel:
        """uname(2)."""

    def time(self) -> float:
        """Seconds since 1970."""

    def clock_state(self) -> ClockState:
        """How well the clock is kept, by adjtimex(2)."""

    def euid(self) -> int:
        """The effective user."""

    def environ(self) -> Mapping[str, str]:
        """The environment of the job (live: of this process)."""

    def limits(self) -> Mapping[str, Limit]:
        """Resource limits of the job's shell by their RLIMIT_ name."""

    def sysconf(self, name: str) -> int:
        """sysconf(3) by name: SC_NPROCESSORS_ONLN and so on."""

    def affinity(self) -> frozenset[int]:
        """The CPUs that this process may use."""

    def statvfs(self, mount: str) -> FileSystemUse:
        """The use of the file system mounted at `mount`."""

    def device_access(self, path: str) -> str:
        """What the effective user may do with a device node: `rw`, `r`, `w` or nothing."""

    def shared_memory(self) -> Sequence[SharedMemoryFile]:
        """The files in /dev/shm."""

    # -- network ----------------------------------------------------------------------------------------------------

    def addresses(self) -> Mapping[str, Sequence[str]]:
        """Interface name to its addresses as `address/prefix length`."""

    def routes(self) -> Sequence[Route]:
        """The routes of the main table, IPv4 and IPv6."""

    def sockets(self) -> Sequence[Socket]:
        """TCP sockets of this network namespace, listening and connected."""

    def resolve(self, name: str) -> Sequence[str]:
        """The addresses of a host name. Raises socket.gaierror where the resolver has none."""

    def rdma_port(self, device: str, port: int) -> VerbsPort:
        """What libibverbs says of a port."""

    def ethtool_statistics(self, interface: str) -> Mapping[str, int]:
        """The driver's own counters of an interface, by the driver's names."""

    def dcb(self, interface: str) -> Mapping[str, Any]:
        """Data centre bridging: `trust`, `pfc_enabled_priorities`, `dscp_to_priority` (text of the DSCP -> priority)."""

    # -- services and software --------------------------------------------------------------------------------------

    def services(self) -> Mapping[str, Service]:
        """systemd units by name with suffix."""

    def kernel_messages(self) -> Sequence[KernelMessage]:
        """The kernel log, oldest first."""

    def packages(self) -> Mapping[str, str]:
        """Versions of installed packages of the distribution."""

    def interpreter(self) -> Mapping[str, Any]:
        """What the job's Python says of itself, keys as in nodes/FORMAT.md."""

    def container(self) -> Mapping[str, Any] | None:
        """`runtime`, `pid_namespace`, `network_namespace` (`own` or `host`), `image`; None on the host itself."""

    def kubernetes(self) -> Mapping[str, Any] | None:
        """The Node and Pod objects as the API gives them, shortened; None outside Kubernetes."""

    def command(self, line: str) -> CommandResult:
        """What a command has printed."""

    def nvml(self) -> Mapping[str, Any]:
        """What NVML answers, in the shape of nodes/FORMAT.md: `nvmlInit`, `nvmlSystem...`, `gpus` with one mapping of
        call name to answer for each GPU; an answer may be {"error": NVML_ERROR name}. Raises UnavailableError where
        the host has no NVIDIA driver.
        """


@dataclass(frozen=True, slots=True)
class Earlier:
    """An earlier reading of a node's counters, taken `age_seconds` before the node itself."""

    node: Node
    age_seconds: float
