"""Signals: every measured quantity is declared once, with its type, unit, scope and meaning.

The declarations drive the exporter (`aidiag_<name>`), the static checks of the rule language, the docs and the
dashboard tests. Units are Prometheus base units (prometheus.io/docs/practices/naming).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from aidiag.collectors.subject import SUBJECT_KINDS, SubjectKind

SignalType = Literal["counter", "gauge", "info", "text"]
Unit = Literal[
    "", "seconds", "bytes", "ratio", "count", "hertz", "celsius", "watts", "joules",
    "bytes_per_second", "timestamp_seconds", "code",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Signal:
    """The declaration of a quantity.

    `type`: a `counter` only grows until it resets; a `gauge` is a number that comes and goes; an `info` is always 1
    and says what it knows in labels; a `text` has a word from a closed list as its value (a port state).
    `labels` are the labels beside those of the subject, each from a closed set. `width_bits` is the size of a
    hardware counter that stops or wraps at its end (classic InfiniBand counters), None where it cannot.
    `max_age_seconds` is how old a reading may be before it counts as stale.
    """

    name: str
    type: SignalType
    unit: Unit
    scope: SubjectKind
    help: str
    labels: tuple[str, ...] = ()
    width_bits: int | None = None
    max_age_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class EventKind:
    """The declaration of something that happens at a time: a log message, an exit, an Xid.

    `fields` are the facts that an event of this kind may carry.
    """

    name: str
    scope: SubjectKind
    help: str
    fields: tuple[str, ...] = ()


class DuplicateNameError(ValueError):
    """Two collectors declare the same signal or the same event kind differently."""


@dataclass(frozen=True, slots=True)
class Registry:
    """All signals and event kinds, by name."""

    signals: Mapping[str, Signal]
    events: Mapping[str, EventKind]

    @classmethod
    def of(
        cls,
        signals: Iterable[Signal],
        events: Iterable[EventKind] = (),
    ) -> Registry:
        """Collect declarations. Raises DuplicateNameError when one name has two meanings.

        An event kind may be declared by several collectors that see the same thing happen (the kernel's own log, and
        its lines in a job's log), each with the fields that it can tell.
        """
        by_name: dict[str, Signal] = {}
        for signal in signals:
            if by_name.setdefault(signal.name, signal) != signal:
                raise DuplicateNameError(f"signal {signal.name} is declared twice with different meanings")
            if signal.scope not in SUBJECT_KINDS:
                raise ValueError(f"signal {signal.name}: no subject kind {signal.scope}")
        kinds: dict[str, EventKind] = {}
        for kind in events:
            known = kinds.setdefault(kind.name, kind)
            if known.scope != kind.scope:
                raise DuplicateNameError(f"event kind {kind.name} is declared for {known.scope} and for {kind.scope}")
            if known != kind:
                kinds[kind.name] = replace(known, fields=tuple(dict.fromkeys((*known.fields, *kind.fields))))
        both = sorted(by_name.keys() & kinds.keys())
        if both:
            raise DuplicateNameError(f"{both[0]} is both a signal and an event kind")
        return cls(by_name, kinds)
