"""The interface over which this node reaches the master of the job, for jobs whose settings name no interface."""

from __future__ import annotations

from collections.abc import Iterable

from aidiag.collectors.collector import Clock
from aidiag.collectors.errors import CollectorError, HungError
from aidiag.collectors.network.interface_choice import interface_towards
from aidiag.collectors.network.interfaces import Interface
from aidiag.collectors.node import Node

FRESH_SECONDS = 300.0
"""How long the addresses of the master's name are kept."""
RETRY_SECONDS = 30.0
"""How long a name that did not resolve is left alone."""


class MasterRoute:
    """Resolves the master's name now and then, and finds the interface that leads to it."""

    def __init__(self, node: Node, clock: Clock) -> None:
        self._node, self._clock = node, clock
        self._name = ""
        self._until = float("-inf")
        self._address = ""
        self._reason = ""

    def interface(self, master: str, interfaces: Iterable[Interface]) -> tuple[frozenset[str] | None, str]:
        """The interface towards a name or address as a set of one; None and the reason where that is not known."""
        self._resolve(master)
        if not self._address:
            return None, self._reason
        try:
            routes = self._node.routes()
        except OSError as error:
            routes = []
            self._reason = f"the routes cannot be read: {error.strerror}"
        addresses = {interface.name: interface.addresses for interface in interfaces}
        name = interface_towards(self._address, addresses, routes)
        if name is None:
            return None, self._reason or f"no route leads to MASTER_ADDR {master} ({self._address})"
        return frozenset((name,)), ""

    def _resolve(self, master: str) -> None:
        now = self._clock.monotonic()
        if master == self._name and now < self._until:
            return
        self._name, self._address, self._reason = master, "", ""
        try:
            found = self._node.resolve(master)
            self._address = found[0] if found else ""
            self._reason = "" if found else f"MASTER_ADDR {master} has no address"
        except HungError as error:
            self._reason = f"MASTER_ADDR {master}: {error.reason}"
        except (OSError, CollectorError) as error:
            self._reason = f"MASTER_ADDR {master} does not resolve: {error}"
        self._until = now + (FRESH_SECONDS if self._address else RETRY_SECONDS)
