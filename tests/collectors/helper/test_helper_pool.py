"""Helpers for many things: one that hangs does not stop the questions about the others."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from aidiag.collectors.errors import CollectorError, HungError
from aidiag.collectors.helper import Helper
from aidiag.collectors.helper.pool import STUCK_LIMIT, HelperPool

SCRIPT = """
import time

def wait(seconds):
    time.sleep(seconds)
    return "late"

VERBS = {"echo": lambda value: value, "wait": wait, "divide": lambda a: 1 / a}
"""


class Made:
    """A pool and the helpers that it has made."""

    def __init__(self, script: Path) -> None:
        self.helpers: list[Helper] = []
        self._script = script
        self.pool = HelperPool(self.make)

    def make(self) -> Helper:
        """One more helper."""
        self.helpers.append(Helper(self._script, name="test", deadline_seconds=0.5, packages=False))
        return self.helpers[-1]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    """A pool of helpers that serve SCRIPT."""
    script = tmp_path / "verbs.py"
    script.write_text(SCRIPT)
    made = Made(script)
    yield made
    for helper in made.helpers:
        helper.kill()


def test_one_helper_serves_all(made: Made) -> None:
    """As long as nothing hangs and nothing is asked at once, one process does; errors do not use it up."""
    assert [1, 2] == [made.pool.ask("/a", "echo", 1), made.pool.ask("/b", "echo", 2)]
    with pytest.raises(CollectorError, match="ZeroDivisionError"):
        made.pool.ask("/a", "divide", 0)
    assert 3 == made.pool.ask("/c", "echo", 3)
    assert 1 == len(made.helpers)


def test_hung_resource_is_set_apart(made: Made) -> None:
    """The resource that hangs keeps its helper and is not asked again; another helper serves the rest."""
    with pytest.raises(HungError, match=r"wait\(60\) has not returned"):
        made.pool.ask("/a", "wait", 60)

    with pytest.raises(HungError, match=r"wait\(60\) has not returned") as caught:
        made.pool.ask("/a", "echo", 1)
    assert caught.value.seconds >= 0.5
    assert 2 == made.pool.ask("/b", "echo", 2)
    assert ["wait"] == [call for call, _ in made.pool.pending().values()]
    assert (2, 1, 1) == (len(made.helpers), made.helpers[0].starts, made.helpers[1].starts)


def test_resource_comes_back(made: Made) -> None:
    """When the call has returned after all, the resource is asked again, in its own helper."""
    with pytest.raises(HungError):
        made.pool.ask("/a", "wait", 1)
    end = time.monotonic() + 20
    while made.pool.pending() and time.monotonic() < end:
        time.sleep(0.05)

    assert 1 == made.pool.ask("/a", "echo", 1)
    assert 1 == len(made.helpers)


def test_stuck_helpers_are_bounded(made: Made) -> None:
    """However many things hang, only so many processes are stuck; the next one is not asked, and says why."""
    for number in range(STUCK_LIMIT):
        with pytest.raises(HungError):
            made.pool.ask(f"/{number}", "wait", 60)

    with pytest.raises(HungError, match="/more was not asked"):
        made.pool.ask("/more", "echo", 1)
    assert STUCK_LIMIT == len(made.helpers)


def test_what_has_come_back_is_not_stuck(made: Made) -> None:
    """Things that hung once and are never asked for again (an unmounted file system) do not use up the pool."""
    for number in range(STUCK_LIMIT):
        with pytest.raises(HungError):
            made.pool.ask(f"/{number}", "wait", 1)
    end = time.monotonic() + 20
    while made.pool.pending() and time.monotonic() < end:
        time.sleep(0.05)

    assert 1 == made.pool.ask("/more", "echo", 1)
    assert STUCK_LIMIT >= len(made.helpers)


def test_close_ends_all(made: Made) -> None:
    """Closing ends idle and stuck helpers."""
    with pytest.raises(HungError):
        made.pool.ask("/a", "wait", 60)
    made.pool.ask("/b", "echo", 1)
    made.pool.close()

    assert [None, None] == [helper.pid for helper in made.helpers]
