"""How a sidecar or daemon ends: soon after a signal, whatever hangs."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from logging.handlers import QueueHandler, QueueListener
from queue import SimpleQueue

STOP_SECONDS = 4.0
"""From the first signal to the end, at most."""


def on_signals(stop: threading.Event) -> None:
    """Set `stop` at SIGTERM, SIGINT or SIGHUP, and be gone STOP_SECONDS later even where something hangs."""

    def ending(number: int, frame: object) -> None:
        if not stop.is_set():
            stop.set()
            guard = threading.Timer(STOP_SECONDS, os._exit, (0,))  # a log that hangs must not hold it up
            guard.daemon = True
            guard.start()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, ending)


def leave(end_log: Callable[[], object] = logging.shutdown) -> None:
    """End now, with the log written out: threads that hang in a collector are not waited for."""
    end_log()
    os._exit(0)


def log_aside() -> QueueListener:
    """Log to standard error from a thread of its own: that may be a file on a file system which stops answering.

    `stop` of what is returned waits until all is written.
    """
    records: SimpleQueue[logging.LogRecord] = SimpleQueue()
    shown = logging.StreamHandler()
    shown.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(level=logging.INFO, handlers=[QueueHandler(records)])
    listener = QueueListener(records, shown)
    listener.start()
    return listener
