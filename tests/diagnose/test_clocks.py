"""Clocks of hosts that differ: told from the order of lines, and only where that is certain."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aidiag.collectors import registry
from aidiag.collectors.observation import Event, Place
from aidiag.diagnose.clocks import Clocks, corrected
from aidiag.diagnose.incident import LogFile, diagnose_logs
from aidiag.diagnose.report.model import Report
from aidiag.rules.causes import Links, arrange
from aidiag.rules.finding import Culprit, Finding
from aidiag.rules.loader import load_rules
from aidiag.rules.model import Explained

CLOSED = (
    "{host}: 2026-11-30 20:{minute:02d}:{second:02d} {host}:{pid}:11 [0] misc/socket.cc:49 NCCL WARN socketProgress: "
    "Connection closed by remote peer {peer}<4000>\n"
)


def clocks_of(*lines: tuple[str, float], source: str = "job.log") -> Clocks:
    """The clocks after events of hosts at stated times, in the order of a log."""
    clocks = Clocks()
    for number, (host, unix) in enumerate(lines, 1):
        clocks.see(Event("nccl_error", None, None, {"host": host}, unix, Place(source, number, "")))
    return clocks


def test_a_clock_that_is_ahead_is_told() -> None:
    """Lines of two hosts alternate, and those of one are a minute ahead."""
    lines = [(host, second + ahead) for second in range(4) for host, ahead in (("a", 0.0), ("b", 60.0))]
    assert clocks_of(*lines).ahead() == {"b": pytest.approx(60, abs=1)}
    assert clocks_of(*[(host, unix - 120 * (host == "b")) for host, unix in lines]).ahead() == {
        "b": pytest.approx(-60, abs=1)
    }


def test_a_time_zone_is_told_as_well() -> None:
    """One host writes UTC, the other one its local time."""
    lines = [(host, second + ahead) for second in range(4) for host, ahead in (("a", 0.0), ("b", 28800.0))]
    assert clocks_of(*lines).ahead() == {"b": pytest.approx(28800, abs=1)}


@pytest.mark.parametrize(
    "lines",
    [
        [("a", 0.0), ("b", 60.0)],  # one direction: b may just have been quiet for a minute
        [("a", 0.0), ("a", 1.0), ("b", 60.0), ("b", 61.0)],
        [("a", 0.0), ("b", 60.0), ("a", 61.0), ("b", 62.0), ("a", 63.0)],  # equal clocks
        [("a", 0.0), ("b", 60.0), ("a", 1.0)],  # one line was held back
        [
            ("a", 0.0),
            ("b", 60.0),
            ("a", 100.0),
            ("b", 30.0),
            ("a", 90.0),
            ("b", 20.0),
            ("a", 5.0),
        ],  # contradicts itself
    ],
)
def test_what_the_order_does_not_show_is_not_told(lines: list[tuple[str, float]]) -> None:
    """Without bounds in both directions, at several places and in agreement, times are taken as they are."""
    assert clocks_of(*lines).ahead() == {}


def test_hosts_that_complete_a_communicator_do_so_together() -> None:
    """Logs of single hosts have no common order, but a common moment."""
    clocks = Clocks()
    for host, unix in (("a", 100.0), ("b", 161.0)):
        fields = {"host": host, "comm_id": "0x5"}
        clocks.see(Event("nccl_init_completed", None, None, fields, unix, Place(f"{host}.log", 1, "")))
    assert clocks.ahead() == {"b": pytest.approx(61, abs=1)}


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 10)), max_size=60), st.floats(-100, 100))
@settings(max_examples=200)
def test_clocks_that_agree_are_never_moved(steps: list[tuple[str, float]], start: float) -> None:
    """With one clock for all, whatever the order and the pauses, nothing is said."""
    now, lines = start, []
    for host, pause in steps:
        now += pause
        lines.append((host, now))
    assert clocks_of(*lines).ahead() == {}


def diagnosed(folder: Path, ahead_minutes: int) -> Report:
    """The report on a merged log of two hosts, one of whose clocks is so far ahead."""
    text = ""
    for second in range(1, 6):
        text += CLOSED.format(host="node-a", pid=10, peer="node-b", minute=10, second=2 * second)
        text += CLOSED.format(host="node-b", pid=20, peer="node-a", minute=10 + ahead_minutes, second=2 * second + 1)
    path = folder / "job.log"
    path.write_text(text)
    known = registry()
    return diagnose_logs([LogFile(path, "job.log")], rules=load_rules((), known).rules, registry=known, language="en")


def test_a_report_says_that_clocks_differ(tmp_path: Path) -> None:
    """Which clock is how far ahead stands in the report; where they agree, nothing does."""
    [gap] = [gap for gap in diagnosed(tmp_path, 5).unknown if "clock" in gap.what]
    assert gap.what == "the clock of node-b"
    assert "ahead of that of node-a" in gap.reason
    assert not [gap for gap in diagnosed(tmp_path, 0).unknown if "clock" in gap.what]


def test_a_cause_on_a_host_whose_clock_is_ahead_explains_what_it_caused() -> None:
    """By stated times the victim was first; by corrected ones the cause is."""
    cause = Finding("killed/j/1", "killed", "killed", "critical", 0.9, "", "", Culprit("rank", (1,), ("b",)), 1060.0, 1060.0, (), "", ())  # fmt: skip
    victim = Finding("closed/j/0", "closed", "closed", "critical", 0.9, "", "", Culprit("rank", (0,), ("a",)), 1001.0, 1001.0, (), "", ())  # fmt: skip
    links = {"killed": Links((Explained("closed"),))}
    assert len(arrange([cause, victim], links)[0]) == 2
    [root], [consequence] = arrange(corrected([cause, victim], {"b": 60.0}), links)
    assert (root.rule, root.since, consequence.rule) == ("killed", 1000.0, "closed")
