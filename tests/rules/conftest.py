"""The registry that rules are checked against."""

from __future__ import annotations

import pytest

from aidiag.collectors import registry as collectors_registry
from aidiag.collectors.signal import Registry


@pytest.fixture(scope="session")
def registry() -> Registry:
    """Every signal and event kind of the collectors."""
    return collectors_registry()
