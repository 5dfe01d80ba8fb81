"""A small HTTP server for GET requests with hard limits, for numbers and pages that lie ready.

prometheus_client's own server answers every path with the metrics and keeps half-open connections for ever, so the
sidecar has this one. Limits: CONNECTIONS at once, HEAD_BYTES of request head within HEAD_SECONDS, no bodies.
"""

from __future__ import annotations

import contextlib
import gzip
import logging
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

CONNECTIONS = 40
HEAD_BYTES = 16 * 1024
LINE_BYTES = 8 * 1024
HEAD_SECONDS = 5.0
SEND_SECONDS = 10.0
REASONS = {
    200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
    408: "Request Timeout", 431: "Request Header Fields Too Large", 500: "Internal Server Error",
    503: "Service Unavailable",
}  # fmt: skip

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Request:
    """The parts of a request that a route may look at."""

    path: str
    accept: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a route says."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: int = 200


Route = Callable[[Request], Answer]


class BadRequestError(Exception):
    """The request is refused with `status`."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self,
        family: socket.AddressFamily,
        address: tuple[str, int],
        routes: Mapping[str, Route],
        hosts: frozenset[str] | None,
    ) -> None:
        self.address_family = family
        self.routes = routes
        self.hosts = hosts
        self.places = threading.BoundedSemaphore(CONNECTIONS)
        super().__init__(address, _Handler)

    def get_request(self) -> tuple[socket.socket, object]:
        try:
            return super().get_request()
        except OSError:
            time.sleep(0.05)  # out of file descriptors: do not spin on accept
            raise

    def process_request(self, request: object, client_address: object) -> None:
        if not self.places.acquire(blocking=False):
            assert isinstance(request, socket.socket)
            with contextlib.suppress(OSError):
                request.setblocking(False)
                request.send(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)  # type: ignore[arg-type]  # typeshed wants its own alias
        except RuntimeError:  # no thread can be started
            self.places.release()
            raise

    def process_request_thread(self, request: object, client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]
        finally:
            self.places.release()

    def handle_error(self, request: object, client_address: object) -> None:
        log.debug("a request failed before it could be answered")


class _Handler(socketserver.BaseRequestHandler):
    server: _Server
    request: socket.socket

    def handle(self) -> None:
        gzipped = False
        try:
            line, headers = self._head()
            request, gzipped = self._parse(line, headers)
            route = self.server.routes.get(request.path)
            if route is None:
                raise BadRequestError(404, f"no such page; there are: {' '.join(sorted(self.server.routes))}")
            answer = route(request)
        except BadRequestError as refusal:
            answer = Answer(f"{refusal}\n".encode(), status=refusal.status)
        except (TimeoutError, ConnectionError):
            return
        except Exception:
            log.exception("route failed")
            answer = Answer(b"internal error; the log of aidiag says more\n", status=500)
        self._send(answer, gzipped)

    def _head(self) -> tuple[bytes, list[bytes]]:
        """The request line and the header lines, all within HEAD_SECONDS, however slowly they drip."""
        end = time.monotonic() + HEAD_SECONDS
        head = b""
        while b"\r\n\r\n" not in head and b"\n\n" not in head:
            left = end - time.monotonic()
            if left <= 0:
                raise BadRequestError(408, f"the request head did not arrive within {HEAD_SECONDS:g} s")
            self.request.settimeout(left)
            piece = self.request.recv(4096)
            if not piece:
                raise ConnectionError
            head += piece
            if len(head) > HEAD_BYTES:
                raise BadRequestError(431, f"the request head is longer than {HEAD_BYTES} bytes")
        lines = head.replace(b"\r\n", b"\n").split(b"\n\n", 1)[0].split(b"\n")
        if len(lines[0]) > LINE_BYTES:
            raise BadRequestError(431, f"the request line is longer than {LINE_BYTES} bytes")
        return lines[0], lines[1:]

    def _parse(self, line: bytes, headers: list[bytes]) -> tuple[Request, bool]:
        words = line.decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise BadRequestError(400, "not an HTTP/1 request")
        if words[0] != "GET":
            raise BadRequestError(405, "only GET")
        fields: dict[str, str] = {}
        for header in headers:
            name, _, value = header.decode("latin-1").partition(":")
            fields[name.strip().lower()] = value.strip()
        if fields.get("content-length", "0") != "0" or "transfer-encoding" in fields:
            raise BadRequestError(400, "a request body is not accepted")
        if self.server.hosts is not None:
            name = fields.get("host", "").lower()
            bare = name.rsplit(":", 1)[0] if not name.endswith("]") else name
            if name and bare not in self.server.hosts:
                # A page in a browser that rebinds its own name to loopback must not read us.
                raise BadRequestError(403, "the Host header names another host")
        path = words[1].split("?", 1)[0]
        return Request(path, fields.get("accept", "")), "gzip" in fields.get("accept-encoding", "")

    def _send(self, answer: Answer, gzipped: bool) -> None:
        body = answer.body
        encoding = ""
        if gzipped and len(body) > 1024:
            body = gzip.compress(body, compresslevel=1)
            encoding = "Content-Encoding: gzip\r\n"
        head = (
            f"HTTP/1.1 {answer.status} {REASONS.get(answer.status, 'Error')}\r\n"
            f"Content-Type: {answer.content_type}\r\nContent-Length: {len(body)}\r\n{encoding}"
            "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
            "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\nConnection: close\r\n\r\n"
        )
        with contextlib.suppress(OSError):
            self.request.settimeout(SEND_SECONDS)
            self.request.sendall(head.encode("latin-1") + body)


class Server:
    """Serves `routes` (path to route) on one address until `close`."""

    def __init__(self, address: str, port: int, routes: Mapping[str, Route], *, names: tuple[str, ...] = ()) -> None:
        """Bind `address:port` (port 0: any free one). Raises OSError where it is taken or may not be had.

        On a loopback address only requests whose Host header names this machine are answered; `names` adds to the
        accepted names.
        """
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        loopback = address in ("127.0.0.1", "::1", "localhost")
        hosts = frozenset({"localhost", "127.0.0.1", "[::1]", *(n.lower() for n in names)}) if loopback else None
        self._server = _Server(family, (address, port), routes, hosts)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.2,), name="http", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that was bound."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop listening; answers under way are not waited for."""
        self._server.shutdown()
        self._server.server_close()
