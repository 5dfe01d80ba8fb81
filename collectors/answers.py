"""The shapes in which a node answers: one small class for each kind of system call or service."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileSystemUse:
    """An answer of statvfs(3): sizes in bytes, inode counts, and whether it is mounted read-only."""

    size_bytes: int
    free_bytes: int
    available_bytes: int
    inodes: int
    inodes_available: int
    read_only: bool


@dataclass(frozen=True, slots=True)
class Limit:
    """An answer of getrlimit(2); None is no limit."""

    soft: int | None
    hard: int | None


@dataclass(frozen=True, slots=True)
class Kernel:
    """An answer of uname(2)."""

    system: str
    release: str
    machine: str


@dataclass(frozen=True, slots=True)
class ClockState:
    """An answer of adjtimex(2). `state` 5 is TIME_ERROR; bit 0x40 of `status` is STA_UNSYNC."""

    state: int
    status: int
    offset_seconds: float
    maximum_error_seconds: float
    estimated_error_seconds: float

    @property
    def synchronised(self) -> bool:
        """Whether a time service disciplines the clock."""
        return self.state != 5 and not self.status & 0x40


@dataclass(frozen=True, slots=True)
class Route:
    """A route of the main table: `destination` as address/prefix, `gateway` empty where the net is attached."""

    destination: str
    gateway: str
    interface: str


@dataclass(frozen=True, slots=True)
class Socket:
    """A TCP socket. Addresses are `10.0.0.1:22` or `[::]:22`, `remote` empty while it listens.

    `state` is LISTEN, ESTABLISHED and so on (net/tcp_states.h). `pid` and `command` of the owner are None where
    nobody has looked or may look. `inode` is its number in /proc/PID/fd, 0 where it is not known.
    """

    protocol: str
    local: str
    remote: str
    state: str
    uid: int
    pid: int | None = None
    command: str | None = None
    inode: int = 0


@dataclass(frozen=True, slots=True)
class Service:
    """A systemd unit, words as in org.freedesktop.systemd1."""

    load_state: str
    active_state: str
    sub_state: str
    result: str
    restarts: int
    active_seconds: float | None


@dataclass(frozen=True, slots=True)
class KernelMessage:
    """A line of the kernel log. `level` is one of KERNEL_LEVELS."""

    age_seconds: float
    level: str
    text: str


KERNEL_LEVELS = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")


@dataclass(frozen=True, slots=True)
class SharedMemoryFile:
    """A file in /dev/shm. `mapped_by` are the processes that map it, None where nobody has looked."""

    name: str
    size_bytes: int
    uid: int
    age_seconds: float
    mapped_by: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class VerbsPort:
    """An answer of ibv_query_port(3) for an RDMA port, MTUs in bytes."""

    state: int
    active_mtu_bytes: int
    maximum_mtu_bytes: int
    lid: int


MTU_BYTES = {number: 128 << number for number in range(1, 6)}
"""enum ibv_mtu: 1 = 256 ... 5 = 4096."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command without a file or call of its own has printed."""

    exit_status: int
    seconds: float
    output: str
