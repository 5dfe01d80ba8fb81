"""The HTTP server: what it answers, and what it refuses without harm."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator

import pytest

from aidiag.diagnose.sidecar import http
from aidiag.diagnose.sidecar.http import Answer, Server


@pytest.fixture
def server() -> Iterator[Server]:
    """A server with one good route and one that raises."""

    def broken(request: http.Request) -> Answer:
        raise ValueError("planted")

    made = Server("127.0.0.1", 0, {"/good": lambda request: Answer(b"x" * 5000), "/broken": broken})
    yield made
    made.close()


def ask(server: Server, text: bytes, *, finish: bool = True) -> bytes:
    """Send raw bytes and read all that comes back."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(text)
        if finish:
            connection.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    return answer


def status(answer: bytes) -> int:
    """The status code of a raw answer."""
    return int(answer.split(b" ", 2)[1])


def test_get_answers_with_the_body(server: Server) -> None:
    """A route's body arrives whole, with a length."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/good?name=x") as answer:
        assert b"x" * 5000 == answer.read()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"GET /nope HTTP/1.1\r\n\r\n", 404),
        (b"POST /good HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 405),
        (b"HEAD /good HTTP/1.1\r\n\r\n", 405),
        (b"GET /good HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 400),
        (b"GET /good HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"\x00\xff\xfe garbage\r\n\r\n", 400),
        (b"GET /good\r\n\r\n", 400),
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n", 431),
        (b"GET /good HTTP/1.1\r\n" + b"X: y\r\n" * 4000 + b"\r\n", 431),
        (b"GET /good HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403),
        (b"GET /good HTTP/1.1\r\nHost: localhost:9877\r\n\r\n", 200),
        (b"GET /good HTTP/1.1\r\nHost: [::1]:9877\r\n\r\n", 200),
        (b"GET /broken HTTP/1.1\r\n\r\n", 500),
    ],
)
def test_odd_requests_get_a_plain_status(server: Server, text: bytes, expected: int) -> None:
    """Whatever is sent, the answer is one clear status and no traceback."""
    answer = ask(server, text, finish=False)

    assert expected == status(answer)
    assert b"Traceback" not in answer


def test_gzip_is_used_when_asked(server: Server) -> None:
    """A scraper that accepts gzip gets a short body."""
    answer = ask(server, b"GET /good HTTP/1.1\r\nAccept-Encoding: gzip\r\n\r\n")

    assert b"Content-Encoding: gzip" in answer
    assert len(answer) < 1000


def test_half_open_requests_do_not_stop_others(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections that never finish their head are bounded, dropped after a while, and places come free again."""
    monkeypatch.setattr(http, "HEAD_SECONDS", 1.0)
    lazy = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(http.CONNECTIONS + 20)]
    for connection in lazy:
        connection.sendall(b"GET /good HT")
    assert threading.active_count() <= http.CONNECTIONS + 10
    deadline = time.monotonic() + 30
    answer = b""
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):  # refused while all places are taken
            answer = ask(server, b"GET /good HTTP/1.1\r\n\r\n")
        if answer.startswith(b"HTTP/1.1 200"):
            break
        time.sleep(0.2)
    for connection in lazy:
        connection.close()

    assert 200 == status(answer)


def test_taken_port_is_an_error(server: Server) -> None:
    """A second server on the same port is refused by the system, not silently moved."""
    with pytest.raises(OSError, match="in use"):
        Server("127.0.0.1", server.port, {})
