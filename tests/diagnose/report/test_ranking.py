"""`--why`: what explains what, by mechanism, place and time, and why the other roots stand apart."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest

from aidiag.diagnose.report.model import Report, Unknown
from aidiag.diagnose.report.questions import questions
from aidiag.diagnose.report.ranking import ranking
from aidiag.diagnose.report.terminal import lines, render
from aidiag.rules.causes import Links, arrange, bearing
from aidiag.rules.finding import Culprit, Finding, Step
from aidiag.rules.model import Exclusion, Explained

LINKS = {
    "killed": Links((Explained("closed"), Explained("worker_died", at="rank"), Explained("loss_grows", anytime=True))),
    "closed": Links((Explained("timeout"),)),
    "full": Links(excludes=(Exclusion("killed", False, {"en": "see dmesg on {host}", "zh": "查看 {host} 的 dmesg"}),)),
}


def finding(rule: str, *, rank: int = 0, since: float | None = 1000.0) -> Finding:
    """A finding about a rank of host a."""
    culprit = Culprit("rank", (rank,), ("a",))
    step = Step("Look.", "dmesg -T | tail " + "-n 100 " * 20, "It is there.")
    return Finding(
        f"{rule}/j/{rank}", rule, rule, "critical", 0.8, f"It is {rule}", f"rank {rank}", culprit, since, since, (), "", (step,)
    )  # fmt: skip


def told(*findings: Finding, language: str = "en") -> str:
    """The ranking of a report on these findings."""
    roots, consequences = arrange(findings, LINKS)
    return "\n".join(ranking(Report(findings=tuple(roots), consequences=tuple(consequences)), LINKS, language))


def test_a_consequence_is_told_with_mechanism_place_and_time() -> None:
    """What the rule declares, where it holds, and how much later it was seen."""
    text = told(finding("killed"), finding("closed", rank=1, since=1004.0), finding("worker_died", since=1002.0))
    assert "It is closed (closed): closed is what such a fault leads to, anywhere in the job; seen 4 s later" in text
    assert "worker_died is what such a fault leads to, at the same rank: 0; seen 2 s later" in text


def test_a_chain_is_told_link_by_link() -> None:
    """What a root explains only through others names them."""
    text = told(finding("killed"), finding("closed", since=1001.0), finding("timeout", since=1002.0))
    assert "It is timeout (timeout): by way of It is closed; seen 2 s later" in text


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (finding("closed", since=900.0), "1 can lead to this, but began 100 s later"),
        (finding("worker_died", rank=3), "1 can lead to this, but not at another place"),
        (finding("slow"), "no rule says that 1 leads to this: a fault of its own"),
    ],
)  # fmt: skip
def test_each_further_root_says_why_it_is_none_of_the_first_ones_consequences(other: Finding, reason: str) -> None:
    """By time, by place, or since nothing links them."""
    first = replace(finding("killed"), confidence=0.9)
    assert reason in told(first, other)


def test_what_came_before_is_a_consequence_where_it_foretells() -> None:
    """An early sign is explained although it was seen first; and times that are not known are said to be so."""
    assert "seen 100 s earlier, as its first sign" in told(finding("killed"), finding("loss_grows", since=900.0))
    assert "times are not known" in told(finding("killed", since=None), finding("closed"))


def test_findings_of_different_jobs_do_not_bear_on_each_other() -> None:
    """What `--why` says agrees with how findings are arranged."""
    other = replace(finding("closed"), id="closed/other/0")
    assert bearing(finding("killed"), other, LINKS).obstacle == "unrelated"
    assert bearing(finding("killed"), finding("closed"), LINKS).obstacle is None


def test_two_roots_of_which_one_can_be_true_are_told_with_what_would_decide() -> None:
    """In the ranking and in the report, in the language of the report."""
    roots, consequences = arrange([finding("full"), finding("killed")], LINKS)
    assert "see dmesg on a" in told(finding("full"), finding("killed"))
    assert "查看 a 的 dmesg" in told(finding("full"), finding("killed"), language="zh")
    gap = Unknown("health of the switch", "not asked", "ask")
    report = Report(
        findings=tuple(roots), consequences=tuple(consequences), unknown=(*questions(roots, LINKS, "en"), gap)
    )
    text = [line for line, _ in lines(report)]
    decide = text.index("Only one of these can be true; this would decide:")
    assert "see dmesg on a" in text[decide + 2]
    unseen = text[text.index("What could not be seen:") :]
    assert any("health of the switch" in line for line in unseen)
    assert not any("dmesg on a" in line for line in unseen)


def test_nothing_found_is_said() -> None:
    """Without findings there is nothing to rank."""
    assert "nothing to rank" in told()


class Terminal(io.StringIO):
    """A stream that calls itself a terminal."""

    def isatty(self) -> bool:
        """Yes."""
        return True


def test_commands_are_whole_on_a_terminal_and_prose_keeps_its_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is to be copied is not broken; other lines wrap under their own beginning."""
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    report = Report(findings=(replace(finding("killed"), summary="word " * 40),))
    render(report, terminal)
    shown = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in terminal.getvalue().splitlines()]
    assert any(line.endswith("-n 100") and line.count("-n 100") == 20 for line in shown)
    prose = [line for line in shown if "word" in line]
    assert len(prose) > 1
    assert all(line.startswith("   word") and len(line) <= 60 for line in prose)
