"""The HTTP face of a sidecar or daemon: metrics, health, findings, state, page."""

from __future__ import annotations

import errno
from collections.abc import Callable

from prometheus_client.registry import CollectorRegistry

from aidiag.collectors.signal import Registry
from aidiag.diagnose.sidecar.exporter import Exporter
from aidiag.diagnose.sidecar.http import Server
from aidiag.diagnose.sidecar.routes import routes
from aidiag.diagnose.sidecar.snapshot import Snapshot

PORTS_TRIED = 64


def serve(
    registry: Registry,
    latest: Callable[[], Snapshot | None],
    alive: Callable[[], bool],
    *,
    listen: str,
    port: int,
    exact: bool,
    host: str,
) -> Server:
    """Start serving on `listen:port`.

    Where the port is taken: with `exact` OSError is raised, else the next free port is used, and any free one where
    the next PORTS_TRIED are all taken.
    """
    metrics = CollectorRegistry(auto_describe=False)
    metrics.register(Exporter(registry, latest))
    pages = routes(latest, metrics, alive)
    wanted = [port] if exact or port == 0 else [*range(port, min(port + PORTS_TRIED, 65536)), 0]
    for number in wanted:
        try:
            return Server(listen, number, pages, names=(host,))
        except OSError as problem:
            if problem.errno != errno.EADDRINUSE or number == wanted[-1]:
                raise
    raise AssertionError("the last port tried raises")
