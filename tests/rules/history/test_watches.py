"""Who looks for events."""

from __future__ import annotations

from aidiag.collectors import registry
from aidiag.collectors.observation import Sample, labels
from aidiag.collectors.subject import host
from aidiag.rules.history.watches import FRESH_SECONDS, SUCCESS, Watches

A, KMSG = host("a"), labels(collector="kmsg")


def test_a_success_is_a_look_for_all_kinds_of_the_collector() -> None:
    """Where a collector saw its source its kinds of event have been looked for, until that is too long ago."""
    watches = Watches({"kmsg": ("xid", "sxid")})

    assert ("xid", "sxid") == tuple(watches.look(Sample(SUCCESS, A, 1.0, 10.0, KMSG)))
    assert [A] == list(watches.hosts("xid", 10.0 + FRESH_SECONDS))
    assert [] == list(watches.hosts("xid", 11.0 + FRESH_SECONDS))
    assert [] == list(watches.hosts("crash", 10.0))


def test_a_failure_and_a_stranger_are_no_look() -> None:
    """A run that could not see its source has looked for nothing, nor has a collector that is not known."""
    watches = Watches({"kmsg": ("xid",)})
    watches.look(Sample(SUCCESS, A, 0.0, 10.0, KMSG))
    watches.look(Sample(SUCCESS, A, 1.0, 10.0, labels(collector="other")))

    assert [] == list(watches.hosts("xid", 10.0))


def test_old_looks_are_forgotten() -> None:
    """What is too old to count takes no room."""
    watches = Watches({"kmsg": ("xid",)})
    watches.look(Sample(SUCCESS, A, 1.0, 0.0, KMSG))
    watches.forget(1_000.0)

    assert [] == list(watches.hosts("xid", 0.0))


def test_the_collectors_tell_their_success_by_that_signal() -> None:
    """The signal is that of the runner, counts as long as its readings do, and each collector's kinds are known."""
    known = registry()

    assert FRESH_SECONDS == known.signals[SUCCESS].max_age_seconds
    assert "xid" in known.watches["kmsg"]
    assert known.events.keys() == {kind for kinds in known.watches.values() for kind in kinds}
