"""What expressions are worth, and when they are undecided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from aidiag.collectors.observation import Absent, Event, labels
from aidiag.collectors.signal import Registry
from aidiag.collectors.subject import Subject, gpu, host, job, nic, rank
from aidiag.rules.expression.evaluation import Evaluation
from aidiag.rules.expression.parsing import Names, parse
from aidiag.rules.expression.program import Program
from aidiag.rules.undecided import Undecided

if TYPE_CHECKING:
    from tests.rules.conftest import World

R0, R1, R2 = (rank(number, host="a" if number < 2 else "b", job="j") for number in range(3))


def value_of(
    world: World,
    text: str,
    subject: Subject = R0,
    now: float = 60.0,
    *,
    each: str | None = None,
    binding: str | None = None,
    lets: dict[str, str] | None = None,
) -> Any:
    """What an expression is worth for a subject."""
    names = Names(world.registry, subject.kind, each=each)
    known = {}
    for name, body in (lets or {}).items():
        known[name] = parse(body, names, rooted=False)
        names = Names(world.registry, subject.kind, each=each, lets=dict(known))
    program = Program(world.registry, known, {})
    closure = program.closure(parse(text, names).tree)
    return closure(Evaluation(program, world.window).at(now).frame(subject, binding))


@pytest.fixture
def busy(world: World) -> World:
    """Three ranks on two hosts: queues of 1, 5 and 9, work done at 1, 2 and 3 a second, and one that waits."""
    for number, subject in enumerate((R0, R1, R2)):
        world.feed("queue", subject, [1.0 + 4 * number] * 61)
        world.feed("work_total", subject, [float((number + 1) * t) for t in range(61)])
        world.feed("busy_seconds_total", subject, [float(t) for t in range(61)])
        world.feed("wait_seconds_total", subject, [0.5 * t for t in range(61)], labels=labels(loader="train"))
        world.feed("state", subject, ["off"] * 30 + ["on"] * 31)
        world.feed("rank_info", subject, [1.0] * 61, labels=labels(gpu=str(number)))
    world.feed("memory_bytes", host("a"), [64.0] * 61)
    world.feed("memory_bytes", host("b"), [32.0] * 61)
    world.feed("load_ratio", gpu(1, host="a"), [0.25] * 61)
    for name, place, size in (("eth0", "a", 9000.0), ("eth1", "a", 1500.0), ("eth0", "b", 1500.0)):
        world.feed("mtu_bytes", nic(name, host=place), [size] * 61)
    world.feed("job_world_size", job("j"), [4.0] * 61)
    return world


@pytest.mark.parametrize(
    ("text", "subject", "value"),
    [
        ("queue", R1, 5.0),
        ("rate(work_total, 20s) * 1s", R2, pytest.approx(3.0)),
        ("delta(work_total, 10s)", R1, pytest.approx(20.0)),
        ('state == "on" and last(state, 5s) == "on" and first(state, 60s) == "off"', R0, True),
        ("changed(state, 40s) and not changed(state, 20s)", R0, True),
        ('share(state == "on", 60s)', R0, pytest.approx(0.5)),
        ("memory_bytes / 1B", R2, 32.0),
        ("load_ratio", R1, 0.25),
        ('label(rank_info, "gpu")', R2, "2"),
        ("p50_of(queue)", R0, 5.0),
        ("p50_of(queue, within=host)", R0, 1.0),
        ("mad_of(queue)", R0, 4.0),
        ("min_of(queue) + max_of(queue)", R0, 10.0),
        ("avg_of(queue) + sum_of(queue)", R0, 20.0),
        ("spread_of(queue, where=queue > 1)", R0, 4.0),
        ("count_of(queue > 1)", R0, 2.0),
        ("count_of(queue > 100)", R0, 0.0),
        ("names_of(queue > 1)", R0, "1, 2"),
        ("max_of(queue)", job("j"), 9.0),
        ("max_of(queue)", host("a"), 5.0),
        ("sum_of(memory_bytes) / 1B", job("j"), 96.0),
        ("sum_of(memory_bytes) / 1B", R0, 96.0),
        ("max_of(mtu_bytes) / 1B", host("b"), 1500.0),
        ("count_of(mtu_bytes == 1500B, within=job)", nic("eth0", host="b"), 2.0),
        ("max_of(load_ratio)", R0, 0.25),
        ("job_world_size", host("a"), 4.0),
        ("larger(queue, 3, 2) + smaller(queue, 3)", R0, 4.0),
        ("abs(1 - 3) + floor(1.7) + ceil(1.2)", R0, 5.0),
        ("2 if queue > 3 else 1", R1, 2.0),
        ("1 < queue < 6", R1, True),
        ("queue in (5, 6)", R1, True),
        ("queue not in (5, 6)", R1, False),
        ("exists(queue) and not exists(delay_seconds)", R0, True),
        ("or_else(delay_seconds, 3s) / 1s", R0, 3.0),
        ("age(queue) / 1s", R0, 0.0),
        ("count(crash, 60s) + 0", R0, 0.0),
        ("exists(crash)", R0, False),
    ],
)
def test_values(busy: World, text: str, subject: Subject, value: object) -> None:
    """Expressions have the values that their definition says."""
    assert value == value_of(busy, text, subject)


def test_the_median_of_two_is_the_lower_one(world: World) -> None:
    """Of two members the lower one is the middle, so that one sick of two stands out."""
    world.feed("queue", R0, [1.0])
    world.feed("queue", R1, [9.0])

    assert 1.0 == value_of(world, "p50_of(queue)", R1, now=0.0)


def test_each_binds_the_label_everywhere(busy: World) -> None:
    """With `each`, every signal that has the label is read for its value, in groups too."""
    busy.feed("wait_seconds_total", R0, [float(t) for t in range(61)], labels=labels(loader="eval"))
    text = "rate(wait_seconds_total, 20s) + p50_of(rate(wait_seconds_total, 20s))"

    assert pytest.approx(1.0) == value_of(busy, text, each="loader", binding="train")
    assert pytest.approx(2.0) == value_of(busy, text, each="loader", binding="eval")
    assert "eval" == value_of(busy, "loader", each="loader", binding="eval")


def test_a_window_may_be_calculated(busy: World) -> None:
    """The length of a window may depend on values; it is cut to what is remembered."""
    assert pytest.approx(2.0) == value_of(busy, "rate(work_total, larger(10s, 3 * 1s)) * 1s", R1)
    with pytest.raises(Undecided, match="seen for 60 s of the last 900 s only"):
        value_of(busy, "rate(work_total, 100 * 100s)", R1)
    with pytest.raises(Undecided, match="its length is -1 s"):
        value_of(busy, "rate(work_total, 1s - 2s)", R1)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("delay_seconds > 1s", "nothing has reported it"),
        ("rate(work_total, 600s) > 0", "seen for 60 s of the last 600 s only"),
        ("queue / (queue - queue) > 1", "division by zero"),
        ("queue > 0 and delay_seconds > 1s", "nothing has reported it"),
        ("min_of(delay_seconds) > 1s", "nothing has reported it"),
        ("max_of(queue, where=queue > 100) > 1", "no rank of job j is concerned"),
        ("age(crash) > 1s", "has not happened at a known time"),
        ('field(crash, "code") == 1', "no event says it"),
        ("load_ratio > 1", "nothing has reported it"),
    ],
)
def test_undecided(busy: World, text: str, reason: str) -> None:
    """What cannot be known is undecided, with the reason."""
    with pytest.raises(Undecided, match=reason):
        value_of(busy, text)


def test_members_without_a_value_are_left_out(busy: World) -> None:
    """A group is judged by those of its members that have a value."""
    busy.feed("delay_seconds", R2, [7.0] * 61)

    assert 7.0 == value_of(busy, "min_of(delay_seconds) / 1s")
    assert 1.0 == value_of(busy, "count_of(delay_seconds > 1s)")


def test_a_stale_reading_is_no_reading(busy: World) -> None:
    """A reading older than its signal allows is undecided, and says how old it is."""
    with pytest.raises(Undecided, match="last read 40 s ago"):
        value_of(busy, "queue > 0", now=100.0)
    assert not value_of(busy, "exists(queue)", now=100.0)
    assert 1.0 == value_of(busy, "last(queue, 60s)", now=100.0)


def test_the_collectors_reason_is_passed_on(world: World) -> None:
    """What a collector said about an absence, of a subject or of its host, is the reason."""
    world.feed("queue", R0, [1.0])
    world.window.add(Absent("delay_seconds", R0, "not permitted", "run as root"))
    world.window.add(Absent("load_ratio", host("a"), "no GPU", expected=False))

    with pytest.raises(Undecided) as caught:
        value_of(world, "delay_seconds > 1s", now=0.0)
    assert [("not permitted", "run as root", True)] == [(g.reason, g.remedy, g.expected) for g in caught.value.gaps]
    assert "not permitted" == value_of(world, "why_missing(delay_seconds)", now=0.0)
    assert "" == value_of(world, "why_missing(queue)", now=0.0)
    with pytest.raises(Undecided) as caught:
        value_of(world, "load_ratio > 1", now=0.0)
    assert [("no GPU", False)] == [(g.reason, g.expected) for g in caught.value.gaps]


class TestEvents:
    """Functions of events."""

    def test_events_concern_their_subject_and_what_holds_it(self, world: World) -> None:
        """A rank's event counts for the rank, its host and its job; a host's event for the ranks on it."""
        world.feed("queue", R0, [1.0])
        world.feed("queue", R2, [1.0])
        world.window.add(Event("crash", R0, 10.0, {"code": 3}))
        world.window.add(Event("kernel_line", host("a"), 12.0))

        assert value_of(world, "exists(crash, 60s)", R0)
        assert not value_of(world, "exists(crash, 60s)", R2)
        assert value_of(world, "exists(crash, 60s)", host("a"))
        assert value_of(world, "exists(crash, 60s)", job("j"))
        assert value_of(world, "exists(kernel_line)", R0)
        assert not value_of(world, "exists(kernel_line)", R2)
        assert not value_of(world, "exists(crash, 10s)", R0)
        assert 50.0 == value_of(world, "age(crash) / 1s", R0)
        assert 1.0 == value_of(world, "count_of(exists(crash))", R2)

    def test_the_last_event_tells_its_fields(self, world: World) -> None:
        """`field` is of the last event; numbers, texts and truths keep their type."""
        world.feed("queue", R0, [1.0])
        world.window.add(Event("crash", R0, 10.0, {"code": 3}))
        world.window.add(Event("crash", R0, 20.0, {"code": 9, "text": "boom", "clean": False}))

        assert value_of(world, 'field(crash, "code") == 9')
        assert value_of(world, 'contains(field(crash, "text"), "oo")')
        assert value_of(world, 'begins(field(crash, "text"), "ba", "bo")')
        assert not value_of(world, 'begins(field(crash, "text"), "oom", "x")')
        assert not value_of(world, 'field(crash, "clean") or false')
        with pytest.raises(Undecided, match="'boom' is not a number"):
            value_of(world, 'field(crash, "text") > 3')

    def test_an_event_of_nobody_leaves_it_undecided(self, world: World) -> None:
        """A line that nobody could attribute may concern anybody: neither yes nor no."""
        world.feed("queue", R0, [1.0])
        world.window.add(Event("crash", None, 10.0))

        with pytest.raises(Undecided, match="not known which subject"):
            value_of(world, "exists(crash)")
        assert value_of(world, "or_else(exists(crash), true)")

    def test_a_rank_without_a_host_is_found_again(self, world: World) -> None:
        """An event of a rank whose host the log does not tell is that of the one rank of this number."""
        world.window.add(Event("crash", Subject("rank", "0", job="j"), 10.0))
        world.feed("queue", R0, [1.0], start=20.0)

        assert value_of(world, "exists(crash)")
        assert [R0] == world.window.subjects("rank")


def test_values_follow_what_is_added(world: World) -> None:
    """Nothing is remembered beyond the moment: a new reading at the same time changes the answer."""
    names = Names(world.registry, "rank")
    lets = {"twice": parse("2 * queue", names, rooted=False)}
    program = Program(world.registry, lets, {})
    closure = program.closure(parse("twice + max_of(twice)", Names(world.registry, "rank", lets=lets)).tree)
    evaluation = Evaluation(program, world.window)
    world.feed("queue", R0, [1.0])

    before = closure(evaluation.at(1.0).frame(R0))
    world.feed("queue", R1, [4.0])
    after = closure(evaluation.at(1.0).frame(R0))

    assert (4.0, 10.0) == (before, after)


def test_small_registry_has_no_loader_by_default(small: Registry) -> None:
    """Labels are named in the registry; a program lists what it reads, through lets."""
    names = Names(small, "rank")
    lets = {"sum": parse("queue + delay_seconds / 1s", names, rooted=False)}
    program = Program(small, lets, {})
    tree = parse("sum > 1 and work_total > 0", Names(small, "rank", lets=lets)).tree

    assert {"queue", "delay_seconds", "work_total"} == {program.reads[index].signal for index in program.indices(tree)}
