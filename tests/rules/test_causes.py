"""Root cause before symptom."""

from __future__ import annotations

import random
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aidiag.collectors.signal import Registry
from aidiag.rules.causes import Links, arrange, links_of, open_questions
from aidiag.rules.explanations import Explanations
from aidiag.rules.finding import Culprit, Finding, Severity
from aidiag.rules.loader import load_rules
from aidiag.rules.model import Exclusion, Explained


def finding(
    rule: str,
    *,
    cause: str = "",
    ranks: tuple[int, ...] = (),
    hosts: tuple[str, ...] = (),
    since: float | None = 100.0,
    severity: Severity = "critical",
    confidence: float = 0.8,
    job: str = "j",
) -> Finding:
    """A finding."""
    culprit = Culprit("rank", ranks, hosts) if ranks or hosts else None
    name = "-".join(map(str, (*ranks, *hosts))) or "unknown"
    return Finding(
        f"{rule}/{job}/{name}", cause or rule, rule, severity, confidence, rule, "", culprit, since, since, (), "", ()
    )


def ids(findings: list[Finding]) -> list[str]:
    """The rules of findings."""
    return [found.rule for found in findings]


def links(**explains: str) -> dict[str, Links]:
    """What rules explain: words as in a rule file."""
    found = {}
    for rule, words in explains.items():
        entries = []
        for word in words.split():
            label, _, place = word.removeprefix("rule:").partition("@")
            anytime = place.endswith("!")
            entries.append(Explained(label, word.startswith("rule:"), place.rstrip("!") or "job", anytime))  # type: ignore[arg-type]
        found[rule] = Links(tuple(entries))
    return found


def test_a_killed_rank_explains_what_its_peers_say(registry: Registry) -> None:
    """With the built-in rules, a killed rank is the root; closed connections and failed peers are its consequences."""
    roots, consequences = arrange(
        [
            finding("peer_connection_closed", cause="peer_crashed", since=100.4, severity="warning"),
            finding("rank_failed", cause="peer_crashed", ranks=(0,), since=100.6),
            finding("rank_killed", ranks=(1,), since=100.0),
            finding("no_progress", since=106.0),
        ],
        links_of(load_rules((), registry).rules),
    )

    assert ["rank_killed"] == ids(roots)
    assert ["peer_connection_closed", "rank_failed", "no_progress"] == ids(consequences)
    assert {roots[0].id} == {found.explained_by for found in consequences}
    assert tuple(found.id for found in consequences) == roots[0].explains


def test_what_began_later_explains_nothing_earlier() -> None:
    """A cause does not come after its consequence, beyond what collectors may notice late."""
    declared = links(cause="effect")
    early, late = finding("effect", since=100.0), finding("cause", since=130.0)

    assert ["cause", "effect"] == sorted(ids(arrange([early, late], declared)[0]))
    assert ["cause"] == ids(arrange([early, finding("cause", since=105.0)], declared)[0])
    assert ["cause"] == ids(arrange([early, late], links(cause="effect@job!"))[0])
    assert ["cause"] == ids(arrange([finding("effect", since=None), late], declared)[0])


def test_place() -> None:
    """Where a rule asks for it, cause and consequence concern the same rank or host."""
    declared = links(cause="effect@rank")
    cause = finding("cause", ranks=(1,))

    assert ["cause"] == ids(arrange([cause, finding("effect", ranks=(1, 2))], declared)[0])
    assert 2 == len(arrange([cause, finding("effect", ranks=(2,))], declared)[0])
    assert 2 == len(arrange([cause, finding("effect")], declared)[0])
    host = links(cause="effect@host")
    assert ["cause"] == ids(arrange([finding("cause", ranks=(2,)), finding("effect", ranks=(2,))], host)[0])
    assert ["cause"] == ids(arrange([finding("cause", hosts=("a",)), finding("effect", hosts=("a", "b"))], host)[0])


def test_rules_can_be_named() -> None:
    """`rule:` names one rule among several of a cause."""
    declared = links(cause="rule:effect")
    others = [finding("effect", cause="c"), finding("other", cause="c")]

    assert ["cause", "other"] == sorted(ids(arrange([finding("cause"), *others], declared)[0]))


def test_jobs_do_not_explain_each_other() -> None:
    """A fault of one job is no cause in another."""
    declared = links(cause="effect")

    assert 2 == len(arrange([finding("cause", job="one"), finding("effect", job="two")], declared)[0])


def test_chains_end_at_the_root() -> None:
    """Through several steps a consequence names the root, not the step before."""
    roots, consequences = arrange([finding("c"), finding("b"), finding("a")], links(a="b", b="c"))

    assert ["a"] == ids(roots)
    assert {roots[0].id} == {found.explained_by for found in consequences}


def test_circles() -> None:
    """Of findings that explain each other the earliest is the root; else the more severe, then the more confident."""
    declared = links(a="b", b="c", c="a")
    timed = [finding("a", since=103.0), finding("b", since=101.0), finding("c", since=102.0)]
    even = [finding("a", severity="warning"), finding("b", confidence=0.5), finding("c", confidence=0.6)]

    assert ["b"] == ids(arrange(timed, declared)[0])
    assert ["c"] == ids(arrange(even, declared)[0])


def test_a_circle_that_something_explains_has_no_root_of_its_own() -> None:
    """When a cause outside explains one of a circle, all of it are consequences."""
    roots, consequences = arrange(
        [finding("a", since=90.0), finding("b", since=91.0), finding("root", since=89.0)], links(a="b", b="a", root="b")
    )

    assert ["root"] == ids(roots)
    assert 2 == len(consequences)


def test_findings_of_one_rule() -> None:
    """The first of several failed ranks explains the later ones; those of the same moment cannot be told apart."""
    declared = links(fails="fails")
    first, second, third = (finding("fails", ranks=(n,), since=100.0 + t) for n, t in ((1, 0.0), (2, 0.5), (3, 4.0)))
    roots, consequences = arrange([third, second, first], declared)

    assert [first.id, second.id] == [found.id for found in roots]
    assert [third.id] == [found.id for found in consequences]


def test_order_of_roots() -> None:
    """Critical before warning, then the more confident, then the earlier; a root counts as its gravest consequence."""
    roots, _ = arrange(
        [
            finding("info", severity="info"),
            finding("sure", severity="warning", confidence=0.9),
            finding("late", confidence=0.7, since=105.0),
            finding("early", confidence=0.7, since=101.0),
            finding("mild_cause", severity="warning", confidence=0.95),
            finding("grave_effect"),
        ],
        links(mild_cause="grave_effect"),
    )

    assert ["mild_cause", "early", "late", "sure", "info"] == ids(roots)


def test_a_consequence_goes_to_the_root_at_its_place() -> None:
    """Of two roots that explain it the one on the same rank is named, or the one that does so directly."""
    near, far = finding("a", ranks=(1,)), finding("a", ranks=(2,), confidence=0.9)
    _, consequences = arrange([far, near, finding("effect", ranks=(1,))], links(a="effect"))

    assert near.id == consequences[0].explained_by


def test_an_open_question_says_what_would_decide() -> None:
    """Two roots at one place that exclude each other are told, with what would decide, filled in."""
    decide = {"en": "look at the kernel log of {host}", "zh": "看 {host} 的内核日志"}
    declared = {"killed": Links((), (Exclusion("oom", False, decide),)), "oom_rule": Links()}
    one, other = finding("killed", ranks=(1,), hosts=("a",)), finding("oom_rule", cause="oom", hosts=("a",))
    roots, _ = arrange([one, other], declared)

    [question] = open_questions(roots, declared)
    assert ("look at the kernel log of a", {one.id, other.id}) == (question.decide, set(question.findings))
    assert "看 a 的内核日志" == open_questions(roots, declared, "zh")[0].decide
    assert [] == open_questions([one, finding("oom_rule", cause="oom", hosts=("b",))], declared)


def test_nothing_and_one() -> None:
    """No findings give none; one is a root."""
    assert ([], []) == arrange([], {})
    assert ["x"] == ids(arrange([finding("x")], {})[0])


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_graph_is_arranged(data: Any) -> None:
    """Whatever explains what, each finding comes out once, each consequence names a root, and order does not matter."""
    names = data.draw(st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8))
    declared = {
        name: Links(tuple(Explained(label) for label in data.draw(st.lists(st.sampled_from("abcdefgh"), max_size=4))))
        for name in names
    }
    found = [
        finding(name, since=data.draw(st.sampled_from([None, 0.0, 5.0, 50.0])), ranks=(index,))
        for index, name in enumerate(names)
    ]
    roots, consequences = arrange(found, declared)
    shuffled = random.Random(1).sample(found, len(found))

    assert sorted(f.id for f in found) == sorted(f.id for f in (*roots, *consequences))
    assert {f.explained_by for f in consequences} <= {f.id for f in roots}
    assert bool(roots) == bool(found)
    assert sorted(i for f in roots for i in f.explains) == sorted(f.id for f in consequences)
    assert (roots, consequences) == arrange(shuffled, declared)


@pytest.mark.parametrize("at", ["job", "host", "rank"])
def test_thousands_of_findings_make_a_small_graph(at: Literal["job", "host", "rank"]) -> None:
    """Where each of N findings could explain all N, the graph grows with N, not with N²; a later one has its root."""
    count = 2_000
    declared = {name: Links((Explained("crash", at=at),)) for name in ("a", "b")}
    found = [finding("ab"[n % 2], cause="crash", ranks=(n,), hosts=("h",), since=100.0 + n / 100) for n in range(count)]

    graph = Explanations(found, declared)
    roots, consequences = arrange(found, declared)

    assert sum(map(len, graph.edges)) < 20 * count
    assert count == len(roots) + len(consequences)
    assert (count == len(roots)) is (at == "rank")


def test_questions_are_asked_only_of_findings_that_exclude_each_other() -> None:
    """Among many roots each pair that excludes each other at one place is asked about once."""
    declared = {"killed": Links((), (Exclusion("oom", False, {"en": "look at {host}"}),))}
    roots = [
        finding(rule, cause=cause, hosts=(f"h{n}",))
        for n in range(300)
        for rule, cause in (("killed", "k"), ("oom_rule", "oom"), ("third", "t"))
    ]

    asked = open_questions(roots, declared)

    assert [f"look at h{n}" for n in range(300)] == [question.decide for question in asked]
