"""Fixtures for every room."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests import real_parts


@pytest.fixture(scope="session")
def require() -> Callable[[str], str]:
    """`require("promtool")` is the path of a real program; a missing one skips the test, and fails it in CI."""
    return real_parts.require
