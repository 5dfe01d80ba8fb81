"""The states of ranks: one list for collectors, reports, help texts and dashboards."""

from __future__ import annotations

from pathlib import Path

from aidiag.collectors import registry
from aidiag.collectors.rank_state import RankState
from aidiag.grafana.job.overview import RANK_STATES


def test_codes_never_change() -> None:
    """Rules and dashboards name the codes: each has the meaning that the help text says."""
    said = "0 unknown, 1 starting, 2 rendezvous, 3 group init, 4 training, 5 checkpoint, 6 evaluation, 7 finished, 8 failed"

    assert said == registry().signals["rank_state_code"].help
    assert [state.words for state in RankState] == [shown.text for _, shown in sorted(RANK_STATES.items())]
    assert said in (Path(__file__).resolve().parents[3] / "docs" / "metrics.md").read_text()


def test_an_unknown_code() -> None:
    """A code that nobody gives, and none at all, is an unknown state."""
    assert [RankState.UNKNOWN, RankState.UNKNOWN, RankState.FAILED] == [
        RankState.of(code) for code in (99.0, None, 8.0)
    ]
