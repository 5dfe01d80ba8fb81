"""How a sidecar or daemon ends: soon after a signal, whatever hangs."""

from __future__ import annotations

import logging
import os
import signal
import threading

STOP_SECONDS = 4.0
"""From the first signal to the end, at most."""


def on_signals(stop: threading.Event) -> None:
    """Set `stop` at SIGTERM, SIGINT or SIGHUP, and be gone STOP_SECONDS later even where something hangs."""

    def ending(number: int, frame: object) -> None:
        if not stop.is_set():
            stop.set()
            guard = threading.Timer(STOP_SECONDS, leave)
            guard.daemon = True
            guard.start()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, ending)


def leave() -> None:
    """End now: threads that hang in a collector are not waited for."""
    logging.shutdown()
    os._exit(0)
