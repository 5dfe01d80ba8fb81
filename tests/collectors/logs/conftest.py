"""What the tests of the log room share."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from aidiag.collectors.logs.catalogue import Message, read_catalogue
from aidiag.collectors.logs.compiled import Catalogue
from aidiag.collectors.logs.prefilter import hyperscan_module
from aidiag.collectors.logs.stream import LogStream
from aidiag.collectors.observation import Event

REFERENCE = 1_796_100_000.0
"""When the logs of the tests were read: 1 December 2026."""


@pytest.fixture(scope="session")
def messages() -> tuple[Message, ...]:
    """All messages of the catalogue."""
    return read_catalogue()


@pytest.fixture(scope="session")
def catalogue(messages: tuple[Message, ...]) -> Catalogue:
    """The catalogue, on the engine that is there."""
    return Catalogue(messages)


@pytest.fixture(scope="session")
def plain_catalogue(messages: tuple[Message, ...]) -> Catalogue:
    """The catalogue without hyperscan."""
    return Catalogue(messages, hyperscan=False)


@pytest.fixture(scope="session")
def needs_hyperscan() -> None:
    """A test that means nothing without hyperscan."""
    if hyperscan_module() is None:
        pytest.skip("no hyperscan for this machine")


@pytest.fixture(scope="session")
def read(catalogue: Catalogue) -> Callable[..., list[Event]]:
    """Reads a whole log, in chunks of bytes or at once."""

    def read_all(log: bytes | str, chunks: Iterable[bytes] | None = None, **options: object) -> list[Event]:
        data = log.encode() if isinstance(log, str) else log
        options.setdefault("reference", REFERENCE)
        stream = LogStream(catalogue, "job.log", job="j", **options)  # type: ignore[arg-type]
        events = [event for chunk in chunks or [data] for event in stream.feed(chunk)]
        return [*events, *stream.finish()]

    return read_all
