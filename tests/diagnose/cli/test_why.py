"""`aidiag diagnose --why` on a real log."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidiag.diagnose.cli import main

LOG = Path(__file__).parents[2] / "collectors" / "logs" / "recorded" / "gloo-rank-killed.log"


def printed(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """What the command prints on a log of a job with a killed rank."""
    with pytest.raises(SystemExit):
        main(("diagnose", *options, str(LOG)))
    return capsys.readouterr().out


def test_why_tells_what_the_killed_rank_explains(capsys: pytest.CaptureFixture[str]) -> None:
    """The closed connection of the other rank is a consequence, and the ranking says by which mechanism."""
    text = printed(capsys, "--why")
    ranking = text[text.index("How the causes were ranked") :]
    assert "1. A launcher saw a rank killed (worker_killed)" in ranking
    assert "(peer_connection_closed): peer_crashed is what such a fault leads to, anywhere in the job" in ranking


def test_the_ranking_speaks_the_language_of_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    """In Chinese where that is asked for."""
    assert "原因排序的依据" in printed(capsys, "--why", "--lang", "zh")


def test_without_why_there_is_no_ranking(capsys: pytest.CaptureFixture[str]) -> None:
    """The report alone."""
    assert "How the causes were ranked" not in printed(capsys)
