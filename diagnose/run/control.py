"""Messages between `run` and its keeper: small JSON objects over a socket that keeps their borders."""

from __future__ import annotations

import json
import socket
from typing import Any

MESSAGE_LIMIT_BYTES = 1 << 16


class Control:
    """One end of the line. Each message has a `kind`."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        end.setblocking(False)

    def fileno(self) -> int:
        """For poll."""
        return self._end.fileno()

    def send(self, kind: str, **fields: Any) -> bool:
        """Send a message; False where the other end is gone or does not take it."""
        try:
            self._end.send(json.dumps({"kind": kind, **fields}).encode())
            return True
        except OSError:
            return False

    def receive(self) -> dict[str, Any] | None:
        """The next message, one of kind "" where there is none yet, None where the other end is gone."""
        try:
            data = self._end.recv(MESSAGE_LIMIT_BYTES)
        except BlockingIOError:
            return {"kind": ""}
        except OSError:
            return None
        message: dict[str, Any] | None = json.loads(data) if data else None
        return message

    def close(self) -> None:
        """Hang up."""
        self._end.close()


def line() -> tuple[Control, Control]:
    """Both ends of a new line."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return Control(one), Control(other)
