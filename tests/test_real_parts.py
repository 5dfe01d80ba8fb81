"""The guard of tests that need real programs."""

from __future__ import annotations

import pytest

from tests.real_parts import require


def test_a_program_that_is_there_is_found() -> None:
    """A present program gives its path."""
    assert require("sh").endswith("/sh")


def test_a_missing_program_skips_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside CI the test ends as skipped, and the reason says what to install."""
    monkeypatch.delenv("AIDIAG_CI", raising=False)

    with pytest.raises(pytest.skip.Exception, match=r"promtool is not installed; apt-get install .* prometheus"):
        _without_path(monkeypatch, "promtool")


def test_a_missing_program_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    """In CI a test that cannot run is a failed test."""
    monkeypatch.setenv("AIDIAG_CI", "1")

    with pytest.raises(pytest.fail.Exception, match="in CI every real part must be there: promtool"):
        _without_path(monkeypatch, "promtool")


def _without_path(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setattr("shutil.which", lambda name, path: None)
    require(command)
