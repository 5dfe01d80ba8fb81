"""The tests inside a rule file, read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aidiag.collectors.observation import Absent, Event, Place, Sample
from aidiag.collectors.signal import Registry
from aidiag.rules.loading.document import Document, Route, read_document
from aidiag.rules.loading.errors import RuleError
from aidiag.rules.loading.reader import Reader
from aidiag.rules.loading.rule_file import read_rule
from aidiag.rules.model import Rule
from aidiag.rules.promseries import expand, read_event_subject, read_series, read_subject

MOST_TICKS = 10_000
VERDICTS = ("quiet", "undecided")
KEYS = ("name", "interval", "series", "absent", "events", "at", "expect")
EXPECTED = ("ranks", "hosts", "targets", "summary", "severity", "findings")


@dataclass(frozen=True, slots=True)
class RuleTest:
    """One test of a rule: what is observed, when it is judged, and what should come out."""

    rule: Rule
    name: str
    interval_seconds: float
    samples: dict[int, list[Sample]]
    absences: tuple[Absent, ...]
    events: tuple[Event, ...]
    at_seconds: float
    expect: Any
    line: int


def read_tests(path: Path, registry: Registry) -> list[RuleTest]:
    """The tests of a rule file. Raises RuleError for the first fault in the rule or its tests."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RuleError(str(path), 0, 0, f"cannot be read: {error.strerror}") from None
    document = read_document(path, content)
    rule, errors = read_rule(document, registry)
    if rule is None:
        raise errors[0]
    reader = _TestReader(document, rule, registry)
    tests = list(reader.tests())
    if reader.errors:
        raise reader.errors[0]
    return tests


class _TestReader(Reader):
    """Reads the tests of a rule."""

    def __init__(self, document: Document, rule: Rule, registry: Registry) -> None:
        super().__init__(document)
        self._rule, self._registry = rule, registry

    def tests(self) -> Iterator[RuleTest]:
        kinds: set[str] = set()
        for number in range(len(self.items(("tests",)))):
            route: Route = ("tests", number)
            if not self.known_keys(route, KEYS):
                continue
            test = self._test(route, number)
            kinds.add(test.expect if test.expect in VERDICTS else "firing")
            yield test
        for kind in ("firing", *VERDICTS):
            if kind not in kinds:
                self.fault(
                    ("tests",),
                    f"no test expects it {kind}",
                    "a rule has tests that fire, stay quiet, and are undecided",
                )

    def _test(self, route: Route, number: int) -> RuleTest:
        interval = self.duration((*route, "interval"), 1.0) or 1.0
        at = self.duration((*route, "at"), 60.0)
        if at / interval > MOST_TICKS:
            self.fault((*route, "at"), f"more than {MOST_TICKS} intervals")
        return RuleTest(
            self._rule,
            self.text((*route, "name"), f"test {number + 1}"),
            interval,
            self._samples((*route, "series"), interval),
            tuple(self._absences((*route, "absent"))),
            tuple(self._events((*route, "events"))),
            at,
            self._expect((*route, "expect")),
            self.document.error(route, "").line,
        )

    def _samples(self, route: Route, interval: float) -> dict[int, list[Sample]]:
        found: dict[int, list[Sample]] = {}
        for name, notation in self.mapping(route).items():
            try:
                signal, subject, labels = read_series(name, self._registry)
                readings = expand(str(notation))
            except ValueError as error:
                self.fault((*route, name), str(error))
                continue
            for tick, value in enumerate(readings):
                if value is not None:
                    text = signal.type == "text"
                    sample = Sample(signal.name, subject, str(value) if text else value, tick * interval, labels)
                    found.setdefault(tick, []).append(sample)
        return found

    def _absences(self, route: Route) -> Iterator[Absent]:
        for number in range(len(self.items(route))):
            below = (*route, number)
            where = self._where(below, ("signal", "reason", "remedy", "expected"))
            name = self.text((*below, "signal"))
            declared = self._registry.signals.get(name) or self._registry.events.get(name)
            if declared is None:
                self.fault((*below, "signal"), f"there is no signal or event kind {name}")
                continue
            labels = tuple(sorted((k, where.pop(k)) for k in list(where) if k in getattr(declared, "labels", ())))
            try:
                kind = declared.scope if _names(declared.scope, where) else "host"
                subject = read_subject(kind, where)
            except ValueError as error:
                self.fault(below, str(error))
                continue
            reason, remedy = self.text((*below, "reason"), "not readable"), self.text((*below, "remedy"), "")
            yield Absent(name, subject, reason, remedy, labels, self.truth((*below, "expected"), True))

    def _events(self, route: Route) -> Iterator[Event]:
        for number in range(len(self.items(route))):
            below = (*route, number)
            where = self._where(below, ("kind", "at", "fields", "line"))
            kind = self._registry.events.get(self.text((*below, "kind")))
            if kind is None:
                self.fault((*below, "kind"), "there is no such event kind")
                continue
            fields = self.mapping((*below, "fields"))
            for name in fields:
                if name not in kind.fields:
                    self.fault((*below, "fields", name), f"{kind.name} has no field {name}", at_key=True)
            at = self.duration((*below, "at"), 0.0) if self.value((*below, "at")) != "unknown" else None
            line = self.text((*below, "line"), "")
            try:
                subject = read_event_subject(kind, where)
            except ValueError as error:
                self.fault(below, str(error))
                continue
            place = Place("job.log", number + 1, line) if line else None
            yield Event(kind.name, subject, at, fields, place=place, order=number)

    def _where(self, route: Route, others: tuple[str, ...]) -> dict[str, str]:
        self.known_keys(route, (*others, "rank", "host", "job", "gpu", "device", "port", "nobody", *self._labels()))
        return {key: str(value) for key, value in self.mapping(route).items() if key not in others}

    def _labels(self) -> set[str]:
        return {label for signal in self._registry.signals.values() for label in signal.labels}

    def _expect(self, route: Route) -> Any:
        found = self.value(route)
        if isinstance(found, dict):
            self.known_keys(route, EXPECTED)
        elif found not in VERDICTS:
            self.fault(route, "expected is quiet, undecided, or what is found", "write {ranks: [0]}")
            return "quiet"
        return found


def _names(scope: str, where: dict[str, str]) -> bool:
    """Whether the labels of a test name a subject of this kind, rather than its whole host."""
    needed = {"rank": "rank", "gpu": "gpu", "port": "device", "nic": "device", "job": "job"}
    return scope == "host" or needed.get(scope, "") in where
