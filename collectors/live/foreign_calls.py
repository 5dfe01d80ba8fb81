"""The verbs of the helper that touches what may never answer: foreign file systems, RDMA devices, name servers, the
files of containers.

Run by path in a helper process; it imports nothing of aidiag. Each verb gives `{"value": ...}`, or `{"errno", "text"}`
of the OSError. Bytes travel as Latin-1 text.
"""

import os
import socket
from collections.abc import Callable
from typing import Any


def doing(text: str) -> None:
    """Name the call about to be made; helper/process.py puts the real one in its place."""


def answered(call: Callable[..., object]) -> Callable[..., dict[str, Any]]:
    """Give OSError as a value: only its number tells the caller which error it was."""

    def wrapped(*arguments: object) -> dict[str, Any]:
        try:
            return {"value": call(*arguments)}
        except OSError as error:
            kind = "resolver" if isinstance(error, socket.gaierror) else "system"
            return {"errno": error.errno or 0, "text": error.strerror or str(error), "kind": kind}

    return wrapped


def statvfs(path: str) -> list[int]:
    """The fields in the order of os.statvfs_result."""
    return list(os.statvfs(path))


def read(path: str, limit_bytes: int) -> str:
    """The first bytes of a regular file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        pieces = []
        while limit_bytes > 0 and (piece := os.read(descriptor, min(limit_bytes, 1 << 16))):
            pieces.append(piece)
            limit_bytes -= len(piece)
        return b"".join(pieces).decode("latin-1")
    finally:
        os.close(descriptor)


def read_all(paths: list[str], limit_bytes: int) -> list[dict[str, Any]]:
    """What `read` gives for each path."""
    answers = []
    for path in paths:
        doing(f"read({path})")
        answers.append(VERBS["read"](path, limit_bytes))
    return answers


def getaddrinfo(name: str) -> list[str]:
    """The addresses of a host name, each once, in the resolver's order."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except UnicodeError:  # no name could be so long or have such parts
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known") from None
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


_held: list[int] = []


def hold(process: str, wanted: list[str]) -> list[list[object]]:
    """Open folders below the root of a process (its folder in /proc) and hold them until the next such call.

    Only what lies on a tmpfs there is held; no link is followed. A `*` at the end of a wanted path stands for the
    number of any user. Each folder's path, where it can be opened from (a link in /proc), its device and inode.
    """
    while _held:
        os.close(_held.pop())
    with open(f"{process}/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        lines = file.read(1 << 20).splitlines()
    kinds = {line.split(" ")[0]: line.partition(" - ")[2].split(" ")[0] for line in lines}
    found: list[list[object]] = []
    for want in wanted:
        folder, _, prefix = want.rpartition("/") if want.endswith("*") else (want, "", "")
        try:
            names = _names_of_users(f"{process}/root", folder, prefix[:-1], kinds) if folder != want else [""]
        except OSError:
            continue
        for path in (f"{folder}/{name}".rstrip("/") for name in names):
            try:
                descriptor = _open_on_tmpfs(f"{process}/root", path, kinds)
            except OSError:
                continue
            _held.append(descriptor)
            facts = os.fstat(descriptor)
            found.append([path, f"/proc/{os.getpid()}/fd/{descriptor}", facts.st_dev, facts.st_ino])
    return found


def _names_of_users(root: str, folder: str, prefix: str, kinds: dict[str, str]) -> list[str]:
    """The names in a folder that are `prefix` and a number."""
    place = _open_on_tmpfs(root, folder, kinds)
    try:
        listed = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)
        try:
            names = os.listdir(listed)[:4096]  # noqa: PTH208
        finally:
            os.close(listed)
    finally:
        os.close(place)
    return sorted(name for name in names if name.startswith(prefix) and name[len(prefix) :].isdecimal())[:64]


def _open_on_tmpfs(root: str, path: str, kinds: dict[str, str]) -> int:
    """A folder for reference only (O_PATH), step by step, so that no link leads out of the root. Raises OSError where
    there is none, or where the mount that it lies in, as `kinds` tells by its number, is no tmpfs.
    """
    doing(f"open({root}{path})")
    descriptor = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in path.strip("/").split("/"):
        try:
            deeper = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = deeper
    with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as file:
        mount = next((line.split()[1] for line in file if line.startswith("mnt_id:")), "")
    if kinds.get(mount) != "tmpfs":
        os.close(descriptor)
        raise OSError(f"{path} is on no tmpfs")
    return descriptor


VERBS = {
    call.__name__: answered(call)
    for call in (statvfs, read, read_all, getaddrinfo, os.listdir, os.readlink, os.path.exists, hold)
}
