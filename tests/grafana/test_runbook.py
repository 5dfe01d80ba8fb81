"""Runbook pages: everything that a rule says, in a form that reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aidiag.collectors import registry
from aidiag.grafana import metrics_page, runbook
from aidiag.rules.loader import load_rules
from aidiag.rules.model import Rule

ROOT = Path(__file__).resolve().parents[2]
SITE_RULES = Path(__file__).with_name("site_rules")
RULES = load_rules([], registry()).rules
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)


@pytest.fixture
def page() -> str:
    """The page of the test's own rule."""
    (rule,) = load_rules([SITE_RULES], registry(), built_in=False).rules
    return runbook.page(rule, registry())


def section(page: str, title: str) -> str:
    """The text below one heading."""
    return re.split(r"^## ", page.split(f"\n## {title}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def test_page_says_what_was_found_and_why(page: str) -> None:
    """Title, severity, cause and culprit stand at the top, then what it means."""
    assert "\n# The scratch disk is full\n" in page
    assert "| `scratch_full` | warning | `scratch_full` |" in page
    assert "at 0 % the next one fails" in section(page, "What it means")


def test_page_tells_how_it_is_judged(page: str) -> None:
    """Condition, named values, thresholds with where they come from, and how an operator overrides them."""
    text = section(page, "How it is judged")

    assert "```\nfree < free_min\n```" in text
    assert '| `free` | `host_filesystem_available_bytes["/scratch"]' in text
    assert "| `free_min` | 5% | our scratch needs a twentieth for its journal |" in text
    assert '[rules.scratch_full]\nfree_min = "5%"' in text
    assert "hold for 10 s" in text


def test_page_lists_what_is_read(page: str) -> None:
    """Every metric behind the condition is named with its meaning."""
    text = section(page, "What it looks at")

    assert "`aidiag_host_filesystem_available_bytes`" in text
    assert "`aidiag_host_filesystem_size_bytes`" in text


def test_page_gives_the_remedy_in_order(page: str) -> None:
    """The steps are numbered, a command stands in a block as it is typed, and what confirms it below."""
    text = section(page, "What to do")

    assert text.index("1. Delete old checkpoints") < text.index("do echo ${file}; done\n   ```") < text.index("2. Ask")
    assert "It has helped when: df shows" in text


def test_page_shows_a_firing_test(page: str) -> None:
    """The example is the rule's own first test that fires."""
    text = section(page, "Example")

    assert "name: full" in text
    assert "half full" not in text


def test_page_warns_of_the_look_alike(page: str) -> None:
    """What else looks like the fault is on the page."""
    assert "- A job that has just begun to delete what it wrote." in section(page, "When it is something else")


@each_rule
def test_every_rule_has_a_whole_page(rule: Rule) -> None:
    """The page of each built-in rule has every part that the one on call needs, and no placeholder that nothing filled."""
    page = (ROOT / "docs" / "runbooks" / f"{rule.id}.md").read_text()

    for title in ("What it means", "What to do", "How it is judged", "What it looks at", "Example"):
        assert section(page, title).strip()
    assert not re.search(r"{\w+(:\w+)?}", re.sub(r"```.*?```", "", page, flags=re.DOTALL))


@each_rule
def test_every_number_says_where_it_comes_from(rule: Rule) -> None:
    """Each threshold of each built-in rule states its provenance."""
    assert [] == [name for name, threshold in rule.thresholds.items() if not threshold.because]


def test_index_lists_every_page() -> None:
    """The index links to the page of every rule, and explains aidiag's own alerts."""
    text = (ROOT / "docs" / "runbooks" / "README.md").read_text()

    assert {rule.id for rule in RULES} == {link for link in re.findall(r"\]\((\w+)\.md\)", text)}
    assert "## aidiag itself" in text


def test_metrics_page_names_every_signal_and_event() -> None:
    """Every signal and every event kind of the registry is on the page once."""
    text = metrics_page.page(registry())
    rows = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)

    assert len(rows) == len(set(rows))
    assert {*registry().events} <= {*rows}
    assert len({row for row in rows if row.startswith("aidiag_")}) >= len(registry().signals)
