"""The window: who is known, what is absent, what is forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aidiag.collectors.observation import Absent, Event, Sample, labels
from aidiag.collectors.subject import Subject, gpu, host, job, rank
from aidiag.rules.history import events
from aidiag.rules.history.events import FIRST_KEPT, LAST_KEPT
from aidiag.rules.window import Window

if TYPE_CHECKING:
    from tests.rules.conftest import World

R0, R1 = rank(0, host="a", job="j"), rank(1, host="b", job="j")


def test_who_belongs_to_whom(world: World) -> None:
    """A rank makes its host and job known; its GPU is the one that rank_info names."""
    world.feed("rank_info", R0, [1.0], labels=labels(gpu="2"))
    window = world.window

    assert [job("j")] == window.subjects("job")
    assert [host("a")] == window.subjects("host")
    assert gpu(2, host="a") == window.related(R0, "gpu")
    assert job("j") == window.related(gpu(2, host="a"), "job")
    assert window.related(R0, "nic") is None


def test_members_of_hosts_and_jobs(world: World) -> None:
    """A group is what lies on a host or belongs to a job; the GPUs of a job are those of its hosts."""
    for subject in (R0, R1):
        world.feed("queue", subject, [1.0])
    for place in ("a", "b", "c"):
        world.feed("load_ratio", gpu(0, host=place), [1.0])
    window = world.window

    assert [R0] == window.members("rank", host("a"))
    assert [R0, R1] == window.members("rank", job("j"))
    assert [gpu(0, host="a"), gpu(0, host="b")] == window.members("gpu", job("j"))
    assert [host("a"), host("b")] == window.members("host", job("j"))


def test_a_host_with_two_jobs_has_no_one_job(world: World) -> None:
    """What belongs to a host that runs two jobs belongs to neither alone."""
    world.feed("queue", R0, [1.0])
    world.feed("queue", rank(0, host="a", job="other"), [1.0])

    assert world.window.related(host("a"), "job") is None


def test_a_reading_ends_an_absence(world: World) -> None:
    """What was absent, alone or with its whole host, is so no longer when it is read."""
    world.window.add(Absent("load_ratio", host("a"), "NVML hangs"))
    world.window.add(Absent("queue", R0, "no record"))
    assert world.window.absence("load_ratio", gpu(0, host="a")) is not None

    world.feed("load_ratio", gpu(0, host="a"), [0.5])
    world.feed("queue", R0, [1.0])

    assert world.window.absence("load_ratio", gpu(0, host="a")) is None
    assert world.window.absence("queue", R0) is None


def test_a_reading_of_the_job_ends_what_a_host_said(world: World) -> None:
    """Where the collector of a host could not tell a figure of the job, and then could, it is absent no longer."""
    world.feed("queue", R0, [1.0])
    world.window.add(Absent("job_world_size", host("a"), "no record can be read"))
    assert world.window.absence("job_world_size", job("j")) is not None

    world.feed("job_world_size", job("j"), [2.0])

    assert world.window.absence("job_world_size", job("j")) is None


def test_a_kind_that_is_watched_is_absent_no_longer(world: World) -> None:
    """When its source is read again on this host; that another kind is, or the same on another host, says nothing."""
    crash, line = labels(kind="crash"), labels(kind="kernel_line")
    world.window.add(Absent("kernel_line", host("a"), "not permitted"))
    world.feed("event_kind_watched", host("a"), [1.0], labels=crash)
    world.feed("event_kind_watched", host("a"), [0.0], labels=line)
    world.feed("event_kind_watched", host("b"), [1.0], labels=line)
    assert ["not permitted"] == [absent.reason for absent in world.window.absences("kernel_line")]
    assert [False, True] == [world.window.watched("kernel_line", name, 0.0) for name in "ab"]

    world.feed("event_kind_watched", host("a"), [1.0], labels=line, start=1.0)

    assert [] == list(world.window.absences("kernel_line"))
    assert world.window.watched("kernel_line", "a", 121.0)
    assert not world.window.watched("kernel_line", "a", 122.0)


@pytest.mark.parametrize("with_samples", [True, False])
def test_absences_are_forgotten(world: World, with_samples: bool) -> None:
    """What no collector says any more goes after the horizon, with its subject; what it repeats stays."""
    window = world.window
    if with_samples:
        world.feed("memory_bytes", host("a"), [1.0])
    for number in range(100):
        window.add(Absent("queue", rank(number, host="a", job="j"), "no record"))
    window.forget(0.0)
    window.forget(600.0)
    assert 100 == len(window.subjects("rank"))

    window.add(Absent("queue", R0, "no record", time=600.0))
    window.forget(1_000.0)

    assert [R0] == window.subjects("rank")
    window.forget(1e9)
    assert [] == [*window.subjects("rank"), *window.subjects("host"), *window.absences("queue")]


def test_another_hosts_absence_is_not_ours(world: World) -> None:
    """What one host's collector says is no reason on another host."""
    world.window.add(Absent("load_ratio", host("a"), "no GPU", expected=False))

    assert world.window.absence("load_ratio", gpu(0, host="b")) is None


def test_what_nobody_declared_is_counted_and_left_out(world: World) -> None:
    """Signals and event kinds outside the registry change nothing, and are counted."""
    world.window.add(Sample("nonsense", R0, 1.0, 0.0))
    world.window.add(Event("nonsense", R0, 0.0))
    world.window.add(Absent("nonsense", R0, "?"))

    assert {"nonsense": 3} == world.window.dropped
    assert [] == world.window.subjects("rank")


def test_what_is_gone_is_forgotten(world: World) -> None:
    """Subjects of which nothing has been heard for the horizon go, with their series; living ones stay."""
    world.feed("queue", R0, [1.0])
    world.feed("queue", R1, [1.0, 1.0], step=1000.0)
    world.window.add(Event("crash", R0, 10.0))

    world.window.forget(1000.0)
    assert [R1, R0] == world.window.subjects("rank")  # the event of R0 is kept for an hour
    world.window.forget(5000.0)

    assert world.window.series("queue", R0) is None
    assert R0 not in world.window.subjects("rank")


def test_a_flood_of_events_keeps_the_first_and_the_last(world: World) -> None:
    """Of ten thousand like events those that began it and the newest are kept, and all are counted."""
    for number in range(10_000):
        world.window.add(Event("crash", R0, float(number) / 100, order=number))

    run = world.window.events("crash")[R0]
    orders = [event.order for event in run]

    assert 10_000 == run.seen
    assert [*range(FIRST_KEPT), *range(10_000 - LAST_KEPT, 10_000)] == orders


def test_floods_of_subjects_are_bounded(world: World) -> None:
    """Series beyond the limit are counted and left out."""
    from aidiag.rules import window

    before, window.LARGEST_SERIES = window.LARGEST_SERIES, 10
    try:
        for number in range(50):
            world.feed("queue", rank(number, host="a", job="j"), [1.0])
    finally:
        window.LARGEST_SERIES = before

    assert 10 == len(world.window.subjects("rank"))
    assert {"queue": 40} == world.window.dropped


def test_floods_of_events_are_bounded_and_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events of more subjects than can be remembered are counted, and make nobody known."""
    monkeypatch.setattr(events, "SUBJECTS_KEPT", 10)
    for number in range(50):
        world.window.add(Event("crash", rank(number, host="a", job="j"), 1.0))
    world.window.add(Sample("nonsense", R0, 1.0, 0.0))

    assert 10 == len(world.window.subjects("rank"))
    assert {"crash": 40, "nonsense": 1} == world.window.dropped


def test_the_whole_of_a_large_job_is_remembered(world: World) -> None:
    """Of ten thousand ranks that fail none is left out."""
    for number in range(10_000):
        world.window.add(Event("crash", rank(number, host=f"h{number // 8}", job="j"), 1.0))

    assert 10_000 == len(world.window.events("crash"))
    assert {} == world.window.dropped


def test_stated_times_are_turned_into_the_time_base(world: World) -> None:
    """An event that states only the time of day has a time where the offset of the clocks is known."""
    event = Event("crash", R0, None, unix=1_000_010.0)

    assert 10.0 == Window(world.registry, unix_offset=1_000_000.0).time_of(event)
    assert Window(world.registry).time_of(event) is None


def test_a_rank_known_by_number_only_is_resolved_once(world: World) -> None:
    """A rank without a host is the one of its job with that number, not a second one."""
    world.feed("queue", R0, [1.0])
    world.window.add(Event("crash", Subject("rank", "0", job="j"), 1.0))
    world.window.add(Event("crash", Subject("rank", "0"), 1.0))

    assert [R0] == world.window.subjects("rank")
    assert [R0] == list(world.window.events("crash"))
