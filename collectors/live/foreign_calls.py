"""The verbs of the helper that touches what may never answer: foreign file systems, RDMA devices, name servers.

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


VERBS = {
    call.__name__: answered(call)
    for call in (statvfs, read, read_all, getaddrinfo, os.listdir, os.readlink, os.path.exists)
}
