"""A rule file as a Rule."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

from aidiag.collectors.signal import Registry
from aidiag.collectors.subject import SUBJECT_KINDS
from aidiag.rules.cause_labels import meant_cause
from aidiag.rules.expression.errors import ExpressionError, did_you_mean
from aidiag.rules.expression.parsing import Names
from aidiag.rules.expression.tree import ANY, TEXT, Expression, Name, Type, walk
from aidiag.rules.expression.units import SECONDS, read_quantity
from aidiag.rules.finding import SEVERITIES
from aidiag.rules.loading.document import Document, Route
from aidiag.rules.loading.errors import RuleError
from aidiag.rules.loading.reader import Reader
from aidiag.rules.model import Blamed, Exclusion, Explained, RemedyStep, Rule, Threshold
from aidiag.rules.texts import BUILT_IN, Text, faults

KEYS = (
    "id", "enabled", "cause", "check", "title", "severity", "critical", "confidence", "scope", "each", "merge", "lead",
    "unseen", "thresholds", "let", "events", "when", "until", "settle", "for", "keep_for", "culprit", "culprit_ranks", "explains", "excludes",
    "summary", "why", "remedy", "evidence", "observed", "expected", "target", "false_positives", "references", "tests",
)  # fmt: skip
_ID = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
_CHECK = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_EXPLAINED = re.compile(r"(rule:)?([a-z][a-z0-9_]*)(?:@(rank|host|job))?( anytime)?")

_PLACES = ("host", "hosts", "rank", "ranks")


def read_threshold(value: Any, because: str = "") -> Threshold:
    """A constant: a number, a number with a unit, or a word. Raises ExpressionError."""
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z_][\w.:/-]*", value):
        return Threshold(value, text=value, because=because)
    quantity = read_quantity(value)
    return Threshold(quantity.value, quantity.dimension, str(value), because)


def type_of(threshold: Threshold) -> Type:
    """The type that a threshold has in expressions."""
    return TEXT if isinstance(threshold.value, str) else Type("number", threshold.dimension)


def read_rule(document: Document, registry: Registry) -> tuple[Rule | None, list[RuleError]]:
    """The rule of a document and what is wrong with it; a rule that has faults is not given."""
    reader = _RuleReader(document, registry)
    rule = reader.rule()
    return (None, reader.errors) if reader.errors else (rule, [])


class _RuleReader(Reader):
    def __init__(self, document: Document, registry: Registry) -> None:
        super().__init__(document)
        self._registry = registry

    def rule(self) -> Rule | None:
        if not self.known_keys((), KEYS):
            return None
        scope = self.choice(("scope",), SUBJECT_KINDS)
        events = self._events()
        fields = {field for kind in events for field in self._registry.events[kind].fields}
        names = Names(
            self._registry,
            scope,
            each=self._each(),
            thresholds={},
            fields=frozenset(fields | {"event"}) if events else frozenset(),
        )
        thresholds = self._thresholds(names)
        names = replace(names, thresholds={name: type_of(one) for name, one in thresholds.items()})
        names, lets = self._lets(names)
        when = self.expression(("when",), names, condition=True)
        if self.value(("when",)) is None and not events:
            self.fault((), "when is missing", "add when: or events:")
        types = {**BUILT_IN, **{name: let.type for name, let in lets.items()}, **names.thresholds}
        types |= {field: ANY for field in names.fields} | ({names.each: TEXT} if names.each else {})
        lead = self.text(("lead",), "") or None
        if lead is not None and lead not in lets:
            self.fault(("lead",), f"there is no let {lead}", did_you_mean(lead, lets))
        culprit_ranks = self.text(("culprit_ranks",), "") or None
        if culprit_ranks is not None and culprit_ranks not in {*lets, *names.fields}:
            hint = did_you_mean(culprit_ranks, [*lets, *names.fields])
            self.fault(("culprit_ranks",), f"there is no let or field {culprit_ranks}", hint)
        for_seconds, for_threshold = self._for(thresholds)
        rule = Rule(
            id=self._word(("id",), _ID, "snake_case"),
            cause=self._cause(),
            check=self._word(("check",), _CHECK, "kebab-case") if self.value(("check",)) is not None else None,
            title=self._texts(("title",), {}, required=True),
            severity=self.choice(("severity",), SEVERITIES),
            critical=self.expression(("critical",), names, condition=True),
            confidence=self.ratio(("confidence",), 0.8),
            scope=scope,
            each=names.each,
            merge=None if self.value(("merge",)) is None else self.choice(("merge",), ("job", "host", "moment")),
            lead=lead,
            unseen=self.truth(("unseen",), False),
            thresholds=thresholds,
            lets=lets,
            events=events,
            when=when,
            until=self.expression(("until",), names, condition=True),
            settle_seconds=self.duration(("settle",), 5.0),
            for_seconds=for_seconds,
            for_threshold=for_threshold,
            keep_for_seconds=self.duration(("keep_for",), 0.0),
            culprit=self.choice(("culprit",), get_args(Blamed), scope),
            culprit_ranks=culprit_ranks,
            explains=tuple(self._explains()),
            excludes=tuple(self._excludes()),
            summary=self._texts(("summary",), types, required=True),
            why=self._texts(("why",), types, required=True),
            remedy=tuple(self._remedy(names, types)),
            evidence=tuple(self._texts(("evidence", n), types) for n in range(len(self.items(("evidence",))))),
            observed=self._texts(("observed",), types),
            expected=self._texts(("expected",), types),
            target=self._template(("target",), types),
            false_positives=self.words(("false_positives",)),
            references=self.words(("references",)),
            path=self.document.path,
        )
        self._all_used(rule)
        if rule.check and not (rule.observed and rule.expected):
            self.fault(("check",), "a check says what it observed and expected", "add observed: and expected:")
        return rule

    def _for(self, thresholds: Mapping[str, Threshold]) -> tuple[float, str]:
        """How long it must hold: a duration, or the name of a threshold that is one."""
        name = self.value(("for",))
        threshold = thresholds.get(name) if isinstance(name, str) else None
        if threshold is None:
            return self.duration(("for",), 0.0), ""
        if threshold.dimension != SECONDS or isinstance(threshold.value, str):
            self.fault(("for",), f"{name} is no duration")
            return 0.0, ""
        return threshold.value, str(name)

    def _all_used(self, rule: Rule) -> None:
        """A threshold that nothing uses would be set in vain."""
        conditions = [rule.when, rule.until, rule.critical, *rule.lets.values(), *(step.when for step in rule.remedy)]
        nodes = [node for condition in conditions if condition for node in walk(condition.tree)]
        used = {node.name for node in nodes if isinstance(node, Name) and node.kind == "threshold"}
        for name in rule.thresholds.keys() - used - {rule.for_threshold}:
            self.fault(("thresholds", name), "no condition uses it", "remove it", at_key=True)

    def _word(self, route: Route, form: re.Pattern[str], words: str) -> str:
        found = self.text(route)
        if found and not form.fullmatch(found):
            self.fault(route, f"{found} is not written in {words}")
        return found

    def _events(self) -> tuple[str, ...]:
        kinds = self.words(("events",))
        for n, kind in enumerate(kinds):
            if kind not in self._registry.events:
                hint = did_you_mean(kind, self._registry.events)
                self.fault(("events", n), f"there is no event kind {kind}", hint)
        return tuple(kind for kind in kinds if kind in self._registry.events)

    def _each(self) -> str | None:
        found = self.text(("each",), "") or None
        labels = {label for signal in self._registry.signals.values() for label in signal.labels}
        if found is not None and found not in labels:
            self.fault(("each",), f"no signal has a label {found}", did_you_mean(found, labels))
        return found

    def _thresholds(self, names: Names) -> dict[str, Threshold]:
        found: dict[str, Threshold] = {}
        for name, value in self.mapping(("thresholds",)).items():
            route: Route = ("thresholds", name)
            because = ""
            self._new_name(route, name, names)
            if isinstance(value, dict):
                self.known_keys(route, ("value", "because"))
                because = self.text((*route, "because"), "")
                route, value = (*route, "value"), value.get("value")
            try:
                found[name] = read_threshold(value, because)
            except ExpressionError as error:
                self.fault(route, error.message, error.hint)
        return found

    def _lets(self, names: Names) -> tuple[Names, dict[str, Expression]]:
        found: dict[str, Expression] = {}
        for name in self.mapping(("let",)):
            self._new_name(("let", name), name, names)
            expression = self.expression(("let", name), names, condition=False)
            if expression is None:
                if self.value(("let", name)) is None:
                    self.fault(("let", name), "an expression is expected here", at_key=True)
                continue
            found[name] = expression
            names = replace(names, lets=dict(found))
        return names, found

    def _new_name(self, route: Route, name: str, names: Names) -> None:
        taken = {*names.known(), *BUILT_IN, "true", "false"}
        if not _NAME.fullmatch(name) or len(name) < 2:
            self.fault(route, f"{name} is no name", "use two or more of a-z, 0-9 and _", at_key=True)
        elif name in taken:
            self.fault(route, f"the name {name} has a meaning already", "choose another", at_key=True)

    def _explains(self) -> list[Explained]:
        found: list[Explained] = []
        for n, word in enumerate(self.words(("explains",))):
            match = _EXPLAINED.fullmatch(word)
            if match is None:
                self.fault(("explains", n), f"{word} is no cause", "write a cause or rule:<id>, with @rank or @host")
            elif not match[1] and (meant := meant_cause(match[2])):
                self.fault(("explains", n), f"{match[2]} is no cause", f"did you mean {meant}?")
            else:
                found.append(Explained(match[2], bool(match[1]), match[3] or "job", bool(match[4])))  # type: ignore[arg-type]
        return found

    def _excludes(self) -> list[Exclusion]:
        found: list[Exclusion] = []
        for word in self.mapping(("excludes",)):
            match = _EXPLAINED.fullmatch(word)
            if match is None or match[3] or match[4]:
                self.fault(("excludes", word), f"{word} is no cause", "write a cause or rule:<id>", at_key=True)
            else:
                decide = self._texts(("excludes", word), {name: BUILT_IN[name] for name in _PLACES}, required=True)
                found.append(Exclusion(match[2], bool(match[1]), decide))
        return found

    def _remedy(self, names: Names, types: Mapping[str, Type]) -> list[RemedyStep]:
        steps = self.items(("remedy",))
        if not steps:
            self.fault(("remedy",) if "remedy" in self.document.data else (), "a remedy is missing", "add remedy:")
        found: list[RemedyStep] = []
        for n in range(len(steps)):
            route: Route = ("remedy", n)
            if self.known_keys(route, ("do", "command", "confirm", "if")):
                found.append(
                    RemedyStep(
                        self._texts((*route, "do"), types, required=True),
                        self._template((*route, "command"), types),
                        self._texts((*route, "confirm"), types),
                        self.expression((*route, "if"), names, condition=True),
                    )
                )
        return found

    def _cause(self) -> str:
        word = self._word(("cause",), _ID, "snake_case")
        if meant := meant_cause(word):
            self.fault(("cause",), f"{word} is no cause", f"did you mean {meant}?")
        return word

    def _texts(self, route: Route, types: Mapping[str, Type], *, required: bool = False) -> Text:
        found = self.languages(route, required=required)
        for language, text in found.items():
            place = route if isinstance(self.value(route), str) else (*route, language)
            self._check_template(place, text, types)
        return found

    def _template(self, route: Route, types: Mapping[str, Type]) -> str:
        found = self.text(route, "")
        self._check_template(route, found, types)
        return found

    def _check_template(self, route: Route, template: str, types: Mapping[str, Type]) -> None:
        raw = self.value(route)
        stripped = len(raw) - len(raw.lstrip()) if isinstance(raw, str) else 0
        for message, hint, offset in faults(template, types):
            self.fault(route, message, hint, offset=stripped + offset)
