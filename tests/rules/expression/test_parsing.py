"""What the language accepts, and what it says about the rest."""

from __future__ import annotations

import pytest

from aidiag.collectors.signal import Registry
from aidiag.rules.expression.errors import ExpressionError
from aidiag.rules.expression.parsing import Names, parse, parse_condition
from aidiag.rules.expression.tree import ANY, TEXT, TRUTH, Type
from aidiag.rules.expression.units import SECONDS, Dimension


@pytest.fixture
def names(small: Registry) -> Names:
    """The names of a rule for ranks, apart for each loader, with a let, two thresholds and an event."""
    names = Names(small, "rank", each="loader")
    lets = {"ratio": parse("rate(wait_seconds_total, 20s) / rate(busy_seconds_total, 20s)", names, rooted=False)}
    thresholds = {"most": Type("number"), "wait_max": Type("number", SECONDS)}
    return Names(small, "rank", "loader", lets, thresholds, frozenset({"code", "event"}))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("queue", Type("number")),
        ("delay_seconds", Type("number", SECONDS)),
        ("rate(busy_seconds_total, 20s)", Type("number")),
        ("rate(work_total, 20s)", Type("number", Dimension(seconds=-1))),
        ("delta(busy_seconds_total, 5min)", Type("number", SECONDS)),
        ("ratio > most", TRUTH),
        ("delay_seconds > wait_max or delay_seconds > 0", TRUTH),
        ("state", TEXT),
        ('state in ("on", "off") and state != "on"', TRUTH),
        ("1 < queue <= 5", TRUTH),
        ("queue * 2 + 1 - 3 / queue", Type("number")),
        ("memory_bytes / 4GiB", Type("number")),
        ("larger(5s, 5 * delay_seconds)", Type("number", SECONDS)),
        ("10s if queue > 2 else delay_seconds", Type("number", SECONDS)),
        ("max_of(started_timestamp_seconds) - started_timestamp_seconds", Type("number", SECONDS)),
        ("started_timestamp_seconds + 5s", Type("number", Dimension(timestamp=1))),
        ("p50_of(ratio)", Type("number")),
        ("spread_of(started_timestamp_seconds)", Type("number", SECONDS)),
        ("count_of(queue > 3, within=host)", Type("number")),
        ("names_of(queue > 3)", TEXT),
        ("max_of(mtu_bytes, where=mtu_bytes > 0, within=job)", Type("number", Dimension(bytes=1))),
        ("load_ratio < 30%", TRUTH),
        ("exists(queue) and exists(crash, 60s) and not exists(kernel_line)", TRUTH),
        ("count(crash, 60s)", Type("number")),
        ('field(crash, "code")', ANY),
        ('or_else(field(crash, "text"), "none")', TEXT),
        ("age(queue) + age(crash)", Type("number", SECONDS)),
        ("share(queue > 3, 30s)", Type("number")),
        ('label(rank_info, "gpu")', TEXT),
        ("why_missing(queue)", TEXT),
        ('contains(loader, "train")', TRUTH),
        ('begins(loader, "tr", "va")', TRUTH),
        ('phase_seconds_total["forward", "a"]', Type("number", SECONDS)),
        ("changed(state, 20s) and true and not false", TRUTH),
        ("-queue < -3", TRUTH),
        ("code == 9 and code in (1, 2) and code", TRUTH),
        ('"中文" if queue > 1 else "更多"', TEXT),
        ("queue\n  > 3", TRUTH),
    ],
)
def test_accepted(names: Names, text: str, kind: Type) -> None:
    """Expressions of the language are accepted and typed."""
    assert kind == parse(text, names).type


@pytest.mark.parametrize(
    ("text", "offset", "message"),
    [
        ("queeu > 3", 0, "unknown name queeu; did you mean queue?"),
        ("delay_seconds > 5", 16, "seconds is compared with a plain number; give the number a unit"),
        ("memory_bytes > 5", 15, "bytes is compared with a plain number; give the number a unit, such as 4GiB"),
        ("rate(work_total, 20s) > 2", 24, "such as 2 / 1s"),
        ("queue + delay_seconds", 8, "a plain number and seconds do not go together"),
        ("rate(work_total, 20)", 17, "a window is a duration, this is a plain number; write 20s"),
        ("rate(work_total, 2h)", 17, "at most 900s"),
        ("rate(work_total, 0s)", 17, "a window is longer than 0"),
        ("rate(queue, 20s)", 0, "queue is a gauge, rate takes a counter"),
        ("avg(work_total, 20s)", 0, "use rate or delta for a counter"),
        ("rate(ratio, 20s)", 5, "ratio is not a signal"),
        ("rate(queue + 1, 20s)", 5, "a signal must stand here"),
        ("ratee(work_total, 20s)", 0, "there is no function ratee; did you mean rate?"),
        ("rate", 0, "rate is a function"),
        ("crash", 0, "crash is an event; write exists(crash, 60s)"),
        ("count(queue, 5s)", 0, "count takes an event kind"),
        ('field(crash, "cod")', 0, "did you mean code?"),
        ("phase_seconds_total", 0, 'write phase_seconds_total["phase", "part"]'),
        ('phase_seconds_total["a"]', 0, "has the labels (phase, part)"),
        ('wait_seconds_total["a"]', 0, "has the labels (none); write wait_seconds_total"),
        ("mtu_bytes > 1B", 0, "measured for each nic, seen from a rank; use a group function"),
        ("p50_of(mtu_bytes / memory_bytes * queue)", 0, "cannot tell which subjects"),
        ("p50_of(3)", 0, "cannot tell which subjects"),
        ("max_of(queue, of=3)", 17, "takes no of; known: where=condition"),
        ("max_of(queue, within=rack)", 21, "within is one of"),
        ('state > "on"', 8, "texts have no order"),
        ('state == 3', 9, "this is a plain number, not a text"),
        ("queue in (1s, 2s)", 10, "a plain number is compared with seconds"),
        ("queue in ratio", 9, "in needs a list of constants"),
        ("not queue", 4, "this is a plain number, not a condition"),
        ("queue and true", 0, "this is a plain number, not a condition"),
        ("(queue > 1) == true", 1, "a condition is not compared"),
        ("queue / 0", 8, "division by zero"),
        ("share(rate(work_total, 5s) > 1 / 1s, 30s)", 6, "share cannot look into rate"),
        ("(queue", 0, "( is never closed"),
        ("queue)", 5, ") closes nothing"),
        ("queue ||  true", 6, "write or"),
        ("queue.real", 5, "'.' has no meaning here"),
        ("5s2", 0, "a number runs into what follows"),
        ("queue > 50 %", 11, "'%' has no meaning here"),
        ('"open', 0, "close the string"),
        ('"a" "b"', 4, "two texts stand side by side"),
        ("", 0, "nothing is written here"),
        ("queue >", 7, "cannot be read here"),
        ("queue ** 2", 9, "the operators are + - * /"),
        ("queue // 2", 9, "floor(a / b)"),
        ("queue is 3", 9, "the comparisons are"),
        ("lambda", 6, "cannot be read here"),
        ("[queue]", 0, "a list of values is not part of the language"),
        ("[queue for queue in (1, 2)]", 0, "a comprehension is not part of the language"),
        ("larger(*queue)", 7, "a starred value is not part of the language"),
        ("queue(3)", 0, "there is no function queue"),
        ("queue[3]", 6, "a constant text must stand here"),
        ("_ > 3", 0, "unknown name _"),
        ("None == 3", 0, "this constant is not part of the language"),
    ],
)  # fmt: skip
def test_refused(names: Names, text: str, offset: int, message: str) -> None:
    """What is not of the language is refused in words, at its place."""
    with pytest.raises(ExpressionError) as caught:
        parse(text, names)

    assert message in str(caught.value)
    assert offset == caught.value.offset


def test_a_condition_is_asked_for(names: Names) -> None:
    """Where a condition must stand, a number is refused."""
    with pytest.raises(ExpressionError, match="not a condition"):
        parse_condition("queue + 1", names)


def test_a_let_may_be_meant_for_the_members_of_a_group(small: Registry) -> None:
    """In a rule about jobs a let may read ranks, and can then be used only within a group function."""
    let = parse("queue + 1", Names(small, "job"), rooted=False)
    names = Names(small, "job", lets={"more": let})

    assert TRUTH == parse("max_of(more) > 3", names).type
    with pytest.raises(ExpressionError, match="measured for each rank"):
        parse("more > 3", names)


@pytest.mark.parametrize(
    "text",
    [
        "queue + " * 251 + "1",
        "(" * 21 + "queue" + ")" * 21,
        " and ".join(["queue > 1"] * 70),
        "not " * 30 + "true",
        "-" * 40 + "queue",
        "x" * 2001,
    ],
)
def test_bounded(names: Names, text: str) -> None:
    """Text that is too long, too deep or of too many parts is refused with a hint, not evaluated."""
    with pytest.raises(ExpressionError, match=r"longer than|nested deeper|more than"):
        parse(text, names)
