"""Tables of TCP sockets."""

from __future__ import annotations

import socket

from hypothesis import given
from hypothesis import strategies as st

from aidiag.collectors.live import LiveNode
from aidiag.collectors.live.sockets import parse_sockets

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
LINE = (
    "   0: 0100007F:7331 0200A8C0:0016 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 100 0 0 10 0"
)
LISTENER = "   1: 00000000000000000000000001000000:0016 " + "0" * 32 + ":0000 0A 0:0 00:0 0     0        0 4712 1 0"


def test_lines_are_parsed() -> None:
    """Addresses are in the byte order of the machine, a listening socket has no remote end."""
    (connected,) = parse_sockets("tcp", HEAD + LINE)
    (listening,) = parse_sockets("tcp6", HEAD + LISTENER)

    assert ("127.0.0.1:29489", "192.168.0.2:22", "ESTABLISHED", 1000, 4711) == (
        connected.local,
        connected.remote,
        connected.state,
        connected.uid,
        connected.inode,
    )
    assert ("[::1]:22", "", "LISTEN", 0) == (listening.local, listening.remote, listening.state, listening.uid)


@given(st.text(max_size=200) | st.text(alphabet="0123456789ABCDEF: \n", max_size=200))
def test_garbage_is_no_table(text: str) -> None:
    """No text makes the parser fail."""
    for found in parse_sockets("tcp", HEAD + text):
        assert found.state


def test_own_listener_is_found() -> None:
    """A socket that this process listens on is in the live table with its inode."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        inode = LiveNode().link(f"/proc/self/fd/{server.fileno()}")

        (found,) = [one for one in LiveNode().sockets() if one.local == address]

    assert ("LISTEN", f"socket:[{found.inode}]") == (found.state, inode)
