"""Where facts about a host come from: the live host, or a folder that holds a recorded one.

Collectors ask a Node and never touch the file system or a system call themselves, so that a whole sick host can be
replayed (`aidiag check --root TREE`, RecordedNode).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

READ_LIMIT_BYTES = 1 << 20


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


class Node(Protocol):
    """The facts of one host. Every method raises OSError where the host gives no answer (errno says why),
    `PermissionError` where this user may not ask, and `errors.HungError` where the call does not return.
    """

    name: str
    """The host's name, as findings print it."""

    live: bool
    """True for this machine now, False for a recording."""

    def read(self, path: str, limit_bytes: int = READ_LIMIT_BYTES) -> bytes:
        """The first `limit_bytes` of a file, path as on the host (`/sys/...`)."""

    def text(self, path: str) -> str:
        """A small text file without its trailing white space; undecodable bytes are escaped."""

    def entries(self, path: str) -> Sequence[str]:
        """The sorted names in a folder."""

    def link(self, path: str) -> str:
        """Where a symbolic link points, as it is written."""

    def exists(self, path: str) -> bool:
        """Whether a path is there; False where it cannot be looked at."""

    def environ(self) -> Mapping[str, str]:
        """The environment of the job (live: of this process)."""

    def limits(self) -> Mapping[str, Limit]:
        """Resource limits of the job's shell by their RLIMIT_ name."""

    def statvfs(self, mount: str) -> FileSystemUse:
        """The use of the file system mounted at `mount`."""

    def affinity(self) -> frozenset[int]:
        """The CPUs that this process may use."""

    def addresses(self) -> Mapping[str, Sequence[str]]:
        """Interface name to its addresses as `address/prefix length`."""

    def resolve(self, name: str) -> Sequence[str]:
        """The addresses of a host name."""

    def nvml(self) -> Mapping[str, Any]:
        """What NVML answers, in the shape of nodes/FORMAT.md: `nvmlInit`, `nvmlSystem...`, `gpus` with one mapping of
        call name to answer for each GPU; an answer may be {"error": NVML_ERROR name}. Raises UnavailableError where
        the host has no NVIDIA driver.
        """
