"""Events of one kind: bounded, and found by whom they concern."""

from __future__ import annotations

import random

import pytest

from aidiag.collectors.observation import Event
from aidiag.collectors.subject import Subject, gpu, host, job, rank
from aidiag.rules.history import events as module
from aidiag.rules.history.events import FIRST_KEPT, LAST_KEPT, EventLog
from aidiag.rules.history.relations import Relations


def crash(subject: Subject | None, time: float | None = 0.0) -> Event:
    """Something that happened to a subject."""
    return Event("crash", subject, time)


def concerns(own: Subject, other: Subject, relations: Relations) -> bool:
    """What happened to `other` happened to `own`, to what it belongs to or uses, or to what it holds."""
    return relations.related(own, other.kind) == other or (
        own.kind in ("host", "job") and relations.related(other, own.kind) == own
    )


@pytest.mark.parametrize("seed", range(20))
def test_events_are_found_by_whom_they_concern(seed: int) -> None:
    """Looking up finds the same runs as asking of each subject whether it is concerned, each once."""
    chance = random.Random(seed)
    everyone = [
        *(rank(n, host=h, job=j) for n in range(3) for h in ("a", "b", "") for j in ("j", "k", "")),
        *(gpu(n, host=h) for n in range(3) for h in ("a", "b", "c")),
        *(host(h) for h in "abc"),
        *(job(j) for j in "jk"),
    ]
    relations, log = Relations(), EventLog()
    for subject in chance.sample(everyone, 20):
        relations.add(subject)
        if subject.kind == "rank" and subject.host:
            relations.set_gpu(subject, str(chance.randrange(3)))
    for subject in chance.sample(everyone, 20):
        relations.add(subject)
        log.add(crash(subject), subject)

    for own in everyone:
        found = list(log.concerning(own, relations))

        assert len(found) == len({id(run) for run in found})
        assert {id(run) for run in found} == {
            id(run) for one, run in log.runs.items() if one is not None and concerns(own, one, relations)
        }


def test_the_count_of_what_is_kept_is_right() -> None:
    """However events come, are joined and go, `kept` is how many are there."""
    log = EventLog()
    homeless, r0 = Subject("rank", "0"), rank(0, host="a", job="j")
    for number in range(100):
        for subject in (homeless, r0, None):
            log.add(crash(subject, float(number)), subject)
    assert 3 * (FIRST_KEPT + LAST_KEPT) == log.kept

    log.rename(homeless, r0)
    assert sum(len(run) for run in log.runs.values()) == log.kept == 2 * (FIRST_KEPT + LAST_KEPT)
    gone = log.forget_before(90.0, lambda event: event.time)
    assert sum(len(run) for run in log.runs.values()) == log.kept == 2 * (FIRST_KEPT + LAST_KEPT) - gone
    log.forget_before(200.0, lambda event: event.time)
    assert (0, {}) == (log.kept, log.runs)


def test_too_many_events_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limits nothing more is kept, and the caller learns it; a full run still takes the newest."""
    monkeypatch.setattr(module, "EVENTS_KEPT", FIRST_KEPT + LAST_KEPT + 1)
    log, r0, r1 = EventLog(), rank(0, host="a", job="j"), rank(1, host="a", job="j")
    assert all(log.add(crash(r0, float(n)), r0) for n in range(100))

    assert log.add(crash(r1), r1)
    assert not log.add(crash(r1), r1)
    assert not log.add(crash(None), None)
    assert log.add(crash(r0, 100.0), r0)


def test_events_without_a_time_are_forgotten_too() -> None:
    """What states no time is as old as the newest thing that was known when it came."""
    log, r0 = EventLog(), rank(0, host="a", job="j")
    log.add(crash(r0, None), r0, 50.0)

    assert 0 == log.forget_before(50.0, lambda event: event.time)
    assert 1 == log.forget_before(51.0, lambda event: event.time)
