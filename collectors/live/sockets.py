"""The kernel's tables of TCP sockets: /proc/net/tcp and /proc/net/tcp6 (proc_pid_net(5))."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from aidiag.collectors.answers import Socket

STATES = {
    1: "ESTABLISHED", 2: "SYN_SENT", 3: "SYN_RECV", 4: "FIN_WAIT1", 5: "FIN_WAIT2", 6: "TIME_WAIT", 7: "CLOSE",
    8: "CLOSE_WAIT", 9: "LAST_ACK", 10: "LISTEN", 11: "CLOSING", 12: "NEW_SYN_RECV",
}  # fmt: skip
"""include/net/tcp_states.h"""


def parse_sockets(protocol: str, table: str) -> Iterator[Socket]:
    """The sockets of a table; lines that are none are left out."""
    for line in table.splitlines()[1:]:
        fields = line.split()
        try:
            state = STATES[int(fields[3], 16)]
            remote = "" if state == "LISTEN" else _address(fields[2])
            yield Socket(protocol, _address(fields[1]), remote, state, int(fields[7]), inode=int(fields[9]))
        except (IndexError, KeyError, ValueError, OSError):
            continue


def _address(text: str) -> str:
    """`0100007F:1F90` is 127.0.0.1:8080: each 32-bit word is in the byte order of the machine."""
    host, _, port = text.partition(":")
    raw = bytes.fromhex(host)
    words = b"".join(raw[start : start + 4][::-1] for start in range(0, len(raw), 4))
    number = int(port, 16)
    if len(words) == 4:
        return f"{socket.inet_ntop(socket.AF_INET, words)}:{number}"
    return f"[{socket.inet_ntop(socket.AF_INET6, words)}]:{number}"
