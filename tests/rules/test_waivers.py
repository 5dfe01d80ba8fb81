"""Waivers of faults that an operator accepts for a time."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from aidiag.rules.finding import Culprit, Finding
from aidiag.rules.waivers import Waiver, load_waivers, waived, waiver_for

TEXT = """\
- {id: ib-port-state, target: "mlx5_3:1", until: 2027-01-31, reason: waiting for a cable}
- {id: dev-shm, until: 2026-12-24, reason: small jobs only}
"""


def test_a_waiver_covers_its_target_until_its_day(tmp_path: Path) -> None:
    """A waiver counts for its id and target, or for all targets where none is named, up to and with its last day."""
    (tmp_path / "waivers.yaml").write_text(TEXT)
    waivers, errors = load_waivers(tmp_path / "waivers.yaml")
    early, late = date(2026, 12, 24), date(2027, 2, 1)

    assert [] == errors
    assert "waiting for a cable" == getattr(waiver_for(waivers, "ib-port-state", "mlx5_3:1", early), "reason", None)
    assert waiver_for(waivers, "ib-port-state", "mlx5_4:1", early) is None
    assert waiver_for(waivers, "ib-port-state", "mlx5_3:1", late) is None
    assert waiver_for(waivers, "dev-shm", "node", early) is not None
    assert waiver_for(waivers, "dev-shm", "node", date(2026, 12, 25)) is None


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("- {id: x, until: soon, reason: y}", "soon is no day; write 2027-01-31"),
        ("- {id: x, until: 2027-02-31, reason: y}", "2027-02-31 is no day"),
        ("- {id: x, reason: y}", "until is missing"),
        ("- {id: x, until: 2027-01-31}", "reason is missing"),
        ("- {id: x, until: 2027-01-31, reason: y, tagret: z}", "did you mean target?"),
        ("id: x", "a list is expected here"),
        ("- x", "keys and values are expected"),
    ],
)
def test_a_wrong_waiver_is_told_and_left_out(tmp_path: Path, text: str, answer: str) -> None:
    """A waiver that is not whole does not count, and is told with its place."""
    (tmp_path / "waivers.yaml").write_text(text + "\n")
    waivers, errors = load_waivers(tmp_path / "waivers.yaml")

    assert [] == waivers
    assert answer in str(errors[0])
    assert f"{tmp_path / 'waivers.yaml'}:1:" in str(errors[0])


def test_one_wrong_entry_does_not_harm_the_others(tmp_path: Path) -> None:
    """Waivers beside a wrong one count."""
    (tmp_path / "waivers.yaml").write_text(TEXT + "- {id: x, until: never, reason: y}\n")
    waivers, errors = load_waivers(tmp_path / "waivers.yaml")

    assert (2, 1) == (len(waivers), len(errors))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """A missing file is told."""
    assert "cannot be read: No such file" in str(load_waivers(tmp_path / "none.yaml")[1][0])


def test_a_finding_is_waived_for_all_whom_it_blames(tmp_path: Path) -> None:
    """A finding becomes information where waivers cover everybody whom it blames, and stays as it is where one is not."""
    day = date(2027, 1, 1)
    found = Finding(
        "r/j", "c", "r", "critical", 0.8, "Down", "s", Culprit("port", (), ("a",), ("p1", "p2")), None, None, (), "", ()
    )
    one, two = (Waiver("r", target, day, "known") for target in ("p1", "p2"))

    assert ("info", "Down (waived until 2027-01-01: known)") == (
        (accepted := waived(found, [one, two], day)).severity,
        accepted.title,
    )
    assert found is waived(found, [one], day)
    assert found is waived(found, [one, two], date(2027, 1, 2))
    assert found is waived(found, [Waiver("other", "*", day, "known")], day)
    assert "info" == waived(replace(found, culprit=None), [Waiver("r", "*", day, "known")], day).severity
