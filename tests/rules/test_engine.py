"""Judging: which subjects, which state, with what."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from aidiag.collectors.observation import Absent, Event, Labels, labels
from aidiag.collectors.subject import Subject, SubjectKind, host, job, rank
from aidiag.rules.engine import bind, judge
from aidiag.rules.expression import evaluation
from aidiag.rules.history.relations import Relations
from aidiag.rules.judgement import Judgement
from aidiag.rules.loading.document import read_document
from aidiag.rules.loading.rule_file import read_rule
from aidiag.rules.model import Rule
from aidiag.rules.undecided import Undecided
from aidiag.rules.window import Window

if TYPE_CHECKING:
    from tests.rules.conftest import World

R0, R1 = rank(0, host="a", job="j"), rank(1, host="a", job="j")
HEAD = "cause: c\ntitle: t\nseverity: warning\nsummary: s\nwhy: w\n"
REMEDY = "\nremedy: [{do: d}]"


def rule(world: World, body: str) -> Rule:
    """A rule of a few lines."""
    text = f"id: test_rule\n{HEAD}{body}{'' if 'remedy' in body else REMEDY}"
    found, errors = read_rule(read_document("rule.yaml", text.encode()), world.registry)
    assert found is not None, [str(error) for error in errors]
    return found


def states(world: World, body: str, now: float) -> dict[Any, str]:
    """The state of a rule for each subject."""
    return {
        (j.subject.name if j.subject else None) if j.binding is None else j.binding: j.state
        for j in judge([rule(world, body)], world.window, now)
    }


def test_each_subject_has_its_state(world: World) -> None:
    """A rule is judged for every subject of its scope: firing, quiet or undecided."""
    world.feed("queue", R0, [9.0] * 10)
    world.feed("queue", R1, [1.0] * 10)
    world.feed("state", rank(2, host="a", job="j"), ["on"] * 10)

    assert {"0": "firing", "1": "quiet", "2": "undecided"} == states(world, "scope: rank\nwhen: queue > 5", 9.0)


def test_a_rule_may_look_apart_at_each_label(world: World) -> None:
    """With `each` a subject has one state for each value of the label; without any, none unless a collector says why."""
    world.feed("wait_seconds_total", R0, [float(t) for t in range(20)], labels=labels(loader="train"))
    world.feed("wait_seconds_total", R0, [0.0] * 20, labels=labels(loader="eval"))
    world.feed("queue", R1, [1.0] * 20)
    body = "scope: rank\neach: loader\nwhen: rate(wait_seconds_total, 10s) > 50%"

    assert {"train": "firing", "eval": "quiet"} == states(world, body, 19.0)
    world.window.add(Absent("wait_seconds_total", R1, "no loader was met", labels=labels(loader="train")))
    assert {"train": "firing", "eval": "quiet", "1": "undecided"} == states(world, body, 20.0)


def test_ranks_that_nobody_has_seen(world: World) -> None:
    """With `unseen` a rule is judged for the ranks too that only the world size tells of."""
    world.feed("queue", R0, [1.0] * 10)
    world.feed("job_world_size", job("j"), [3.0] * 10)
    body = "scope: rank\nunseen: true\nwhen: not exists(queue)"

    assert {"0": "quiet", "1": "firing", "2": "firing"} == states(world, body, 9.0)
    assert {"0": "quiet"} == states(world, body.replace("true", "false"), 9.0)


def test_a_judgement_that_fires_brings_what_its_texts_need(world: World) -> None:
    """Values of lets and constants, the readings they come from, severity and the steps that apply come along."""
    world.feed("queue", R0, [9.0] * 10)
    body = (
        "scope: rank\nthresholds: {most: 5}\nlet: {twice: 2 * queue, later: delay_seconds}\n"
        "when: twice > most\ncritical: queue > 8\nremedy: [{do: a, if: queue > 8}, {do: b, if: queue < 8}, {do: c}]"
    )
    [found] = judge([rule(world, body)], world.window, 9.0)

    assert {"most": 5.0, "twice": 18.0, "later": None, "gpu": None} == dict(found.values)
    assert ("queue", 9.0) == (found.signals["twice"].signal, found.signals["twice"].value)
    assert (True, (0, 2), "j") == (found.critical, found.steps, found.job)


def test_judging_is_pure(world: World) -> None:
    """Judging twice, or judging another moment in between, gives the same."""
    world.feed("queue", R0, [9.0] * 10 + [1.0] * 10)
    one = rule(world, "scope: rank\nlet:\n  mean: avg(queue, 10s)\nwhen: mean > 5")

    first = judge([one], world.window, 9.0)
    judge([one], world.window, 19.0)

    assert first == judge([one], world.window, 9.0)


class TestEvents:
    """Rules about events."""

    BODY = "scope: rank\nevents: [crash]\nwhen: code != 0 and not exists(queue)\nsettle: 4s"

    def test_an_event_speaks_for_its_subject(self, world: World) -> None:
        """The rule is judged for the subjects of its events, by the fields of each."""
        world.window.add(Event("crash", R0, 10.0, {"code": 3}))
        world.window.add(Event("crash", R1, 10.0, {"code": 0}))
        world.window.add(Event("crash", rank(2, host="a", job="j"), 10.0))
        world.window.add(Event("crash", None, 10.0, {"code": 7}))

        body = "scope: rank\nevents: [crash]\nwhen: code == 3 or (code == 7 and queue > 1)"

        assert {"0": "firing", "1": "quiet", "2": "undecided", None: "undecided"} == states(world, body, 20.0)

    def test_it_is_judged_by_what_was_known_shortly_after(self, world: World) -> None:
        """What became stale or changed long after the event does not change what it meant."""
        world.feed("queue", R0, [9.0] * 15)
        world.window.add(Event("crash", R0, 10.0))
        body = "scope: rank\nevents: [crash]\nwhen: queue > 5"

        assert {"0": "firing"} == states(world, body, 12.0)
        assert {"0": "firing"} == states(world, body, 500.0)

    def test_its_traces_may_come_a_little_later(self, world: World) -> None:
        """For `settle` seconds what is collected after the event still counts; later it does not."""
        world.window.add(Event("crash", R0, 10.0, {"code": 3}))
        assert {"0": "firing"} == states(world, self.BODY, 11.0)

        world.feed("queue", R0, [1.0] * 3, start=12.0)
        assert {"0": "quiet"} == states(world, self.BODY, 20.0)

    def test_the_first_event_words_it(self, world: World) -> None:
        """Of several events that fulfil the condition the first gives the values and the time."""
        for time, code in ((10.0, 0), (12.0, 5), (11.0, 4)):
            world.window.add(Event("crash", R0, time, {"code": code}))
        [found] = judge([rule(world, self.BODY)], world.window, 30.0)

        assert (11.0, 4, [4, 5]) == (found.since, found.values["code"], [e.fields["code"] for e in found.events])

    def test_it_can_be_over(self, world: World) -> None:
        """`until` ends what an event began, by what is known now."""
        world.window.add(Event("crash", R0, 10.0, {"code": 3}))
        body = self.BODY + "\nuntil: queue > 0 and age(crash) > 30s"
        assert {"0": "firing"} == states(world, body, 20.0)

        world.feed("queue", R0, [1.0] * 10, start=45.0)
        assert {"0": "quiet"} == states(world, body, 50.0)

    def test_events_that_nobody_can_see(self, world: World) -> None:
        """Where a collector says that it cannot see such events, the rule is undecided, not quiet."""
        assert {} == states(world, self.BODY, 10.0)

        world.window.add(Absent("crash", host("a"), "the log is another user's"))

        assert {"a": "undecided"} == states(world, self.BODY, 10.0)

    def test_events_that_can_be_seen_on_one_host_only(self, world: World) -> None:
        """What was told of one host says nothing of another one, whose collector cannot see such events."""
        world.window.add(Event("crash", R0, 10.0, {"code": 3}))
        for name in ("a", "b"):
            world.window.add(Absent("crash", host(name), "the log is another user's", "ask its owner"))
        found = judge([rule(world, self.BODY)], world.window, 20.0)

        assert [(R0, "firing"), (host("b"), "undecided")] == [(one.subject, one.state) for one in found]
        assert ("crash", "the log is another user's", "ask its owner", True) == found[1].gaps[0]

    def test_where_they_are_looked_for_they_have_not_happened(self, world: World) -> None:
        """Where the source is read again the rule is undecided no longer."""
        world.window.add(Absent("crash", host("a"), "the log is another user's"))
        world.feed("event_kind_watched", host("a"), [0.0, 1.0], labels=labels(kind="crash"))

        assert {} == states(world, self.BODY, 10.0)

    def test_what_is_settled_is_not_asked_again(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of ten thousand old events none is looked into at each tick, not even those that stay undecided for long."""
        for number in range(10_000):
            world.window.add(Event("crash", rank(number, host="a", job="j"), 10.0))
        one = rule(world, "scope: rank\nevents: [crash]\nwhen: queue > 5")
        asked: list[Subject | None] = []
        missing = world.window.missing

        def counted(signal: str, subject: Subject | None, labels: Labels = ()) -> Undecided:
            asked.append(subject)
            return missing(signal, subject, labels)

        monkeypatch.setattr(world.window, "missing", counted)
        judge([one], world.window, 100.0)
        assert 10_000 == len(asked)

        asked.clear()
        assert {"undecided"} == {found.state for found in judge([one], world.window, 101.0)}
        assert [] == asked

    def test_what_comes_very_late_still_counts(self, world: World) -> None:
        """An event that stays undecided is looked into again from time to time: a collector may be late."""
        world.window.add(Event("crash", R0, 10.0))
        body = "scope: rank\nevents: [crash]\nwhen: queue > 5"
        one = rule(world, body)
        assert ["undecided"] == [found.state for found in judge([one], world.window, 100.0)]

        world.feed("queue", R0, [9.0] * 15)

        assert ["firing"] == [found.state for found in judge([one], world.window, 115.0)]

    @pytest.mark.parametrize(
        "when", ["exists(kernel_line, 60s) or code == 3", "count_of(exists(crash)) > 0 and code == 3"]
    )
    def test_the_work_grows_with_the_events_not_with_their_square(
        self, world: World, monkeypatch: pytest.MonkeyPatch, when: str
    ) -> None:
        """When twice as many ranks fail, one each second, about twice as much is looked at, groups of them included."""
        monkeypatch.setattr(evaluation, "GROUP_EACH_SECOND", 16)
        looks: list[Subject] = []
        related = Relations.related

        def counted(relations: Relations, subject: Subject, kind: SubjectKind) -> Subject | None:
            looks.append(subject)
            return related(relations, subject, kind)

        monkeypatch.setattr(Relations, "related", counted)
        looked_at = {}
        for count in (200, 400):
            window = Window(world.registry, unix_offset=0.0)
            for number in range(count):
                subject = rank(number, host=f"h{number // 8}", job="j")
                window.add(Event("crash", subject, float(number), {"code": 3}))
                window.add(Event("kernel_line", host(subject.host), float(number)))
            looks.clear()
            found = judge([rule(world, f"scope: rank\nevents: [crash]\nwhen: {when}")], window, 1_000.0)
            assert [("firing", count)] == [(found[0].state, len(found))]
            looked_at[count] = len(looks)

        assert looked_at[400] < 2.5 * looked_at[200]

    def test_events_without_a_time(self, world: World) -> None:
        """An event of a log without times is judged by what is known, and has no `since`."""
        world.window.add(Event("crash", R0, None, {"code": 3}))
        [found] = judge([rule(world, self.BODY)], world.window, 30.0)

        assert ("firing", None) == (found.state, found.since)


@pytest.mark.parametrize("count", [1, 8])
def test_an_unknown_rank_is_not_made_up(world: World, count: int) -> None:
    """Only subjects that were seen are judged."""
    for number in range(count):
        world.feed("queue", rank(number, host="a", job="j"), [1.0])

    found = judge([rule(world, "scope: rank\nwhen: queue > 0")], world.window, 0.0)

    assert [Subject("rank", str(n), "a", "j") for n in range(count)] == [j.subject for j in found]


def test_a_fault_in_one_rule_does_not_take_the_others_along(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is undecided, with what went wrong; the other rules speak."""
    world.window.add(Event("crash", R0, 10.0, {"code": 3}))
    good, bad = (
        rule(world, "scope: rank\nevents: [crash]"),
        rule(world, "scope: rank\nevents: [crash]\nwhen: code == 3"),
    )
    bad = replace(bad, id="bad")
    bound = bind(bad, world.window)

    def fails(now: float) -> list[Judgement]:
        raise TypeError("no")

    monkeypatch.setattr(bound, "judge_events", fails)
    found = judge([bad, good], world.window, 20.0)
    assert [("bad", "undecided"), (good.id, "firing")] == [(one.rule.id, one.state) for one in found]
    assert "TypeError: no" in found[0].gaps[0].reason


@pytest.mark.parametrize(
    ("when", "state"),
    [
        ('contains(or_else(code, ""), "3")', "firing"),
        ("or_else(text, 1) == 1", "firing"),
        ("or_else(text, true)", "firing"),
        ('begins(or_else(code, "x"), "x")', "quiet"),
    ],
)
def test_a_field_of_another_type_than_its_stand_in(world: World, when: str, state: str) -> None:
    """A number is told as a text; a text is no number and no truth, so that the other value stands in for it."""
    world.window.add(Event("crash", R0, 10.0, {"code": 3, "text": "gone"}))
    (found,) = judge([rule(world, f"scope: rank\nevents: [crash]\nwhen: {when}")], world.window, 20.0)
    assert state == found.state
