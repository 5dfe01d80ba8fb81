"""One rule at work on one window."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from aidiag.collectors.observation import Event
from aidiag.collectors.subject import Subject
from aidiag.rules.answers import AGAIN_SECONDS, SETTLED_SECONDS, Answer, Answers
from aidiag.rules.expression import told
from aidiag.rules.expression.evaluation import Closure, Evaluation, Frame
from aidiag.rules.expression.program import Program
from aidiag.rules.expression.tree import Expression, Name, Read, walk
from aidiag.rules.judgement import Judgement, Reading
from aidiag.rules.model import Rule
from aidiag.rules.texts import names_in
from aidiag.rules.undecided import Gap, Undecided
from aidiag.rules.window import Window

MOST_UNSEEN = 4_096


class BoundRule:
    """A rule compiled for a window. It keeps what it has worked out until the window has something new."""

    def __init__(self, rule: Rule, window: Window) -> None:
        self.rule = rule
        self._window = window
        constants = {name: threshold.value for name, threshold in rule.thresholds.items()}
        self._program = program = Program(window.registry, rule.lets, constants)
        self._when = _closure(program, rule.when, default=True)
        self._until = _closure(program, rule.until, default=False)
        self._critical = _closure(program, rule.critical, default=False)
        self._steps = tuple(_closure(program, step.when, default=True) for step in rule.remedy)
        self._lets = tuple(program.closure(Name("let", name)) for name in rule.lets)
        self._shown, self._looked_at = _shown(rule, program)
        self._evaluation = Evaluation(program, window)
        self._apart = [read.signal for read in program.reads if (rule.each, None) in read.labels]
        self._generation = -1
        self._instances: list[tuple[Subject | None, str | None]] = []
        self._answers = Answers()

    def signals(self) -> list[str]:
        """The signals that the rule reads."""
        return [read.signal for read in self._program.reads]

    def judge(self, now: float) -> list[Judgement]:
        """What the rule says about each subject of its scope."""
        rule, when = self.rule, self._when
        found: list[Judgement] = []
        for frame in self.frames(now):
            try:
                truth = when(frame)
            except Undecided as reason:
                found.append(Judgement(rule, frame.subject, "undecided", frame.binding, reason.gaps))
            else:
                if truth:
                    found.append(self._firing(frame))
                else:
                    found.append(Judgement(rule, frame.subject, "quiet", frame.binding))
        return found

    def frames(self, now: float) -> Iterator[Frame]:
        """The subjects of the rule's scope, each apart for every value of the label `each`."""
        evaluation = self._evaluation.at(now)
        if self._generation != self._window.generation or self.rule.unseen:
            self._generation = self._window.generation
            self._instances = list(self._find_instances(now))
        return (evaluation.frame(subject, binding) for subject, binding in self._instances)

    def _find_instances(self, now: float) -> Iterator[tuple[Subject, str | None]]:
        window, each = self._window, self.rule.each
        subjects = [*window.subjects(self.rule.scope), *(self._unseen(now) if self.rule.unseen else ())]
        for subject in subjects:
            if each is None:
                yield subject, None
                continue
            values = {
                value
                for read in self._program.reads
                if (each, None) in read.labels
                for place in [window.related(subject, window.registry.signals[read.signal].scope)]
                if place is not None
                for series in window.series_of(read.signal, place)
                for name, value in series.labels
                if name == each
            }
            yield from ((subject, value) for value in sorted(values))
            if not values and any(window.absence(signal, subject) for signal in self._apart):
                yield subject, None

    def _unseen(self, now: float) -> Iterator[Subject]:
        """The ranks that a job's world size tells of and of which nothing has been seen."""
        for job in self._window.subjects("job"):
            series = self._window.series("job_world_size", job)
            if series is None or not series.fresh(now):
                continue
            seen = {rank.name for rank in self._window.members("rank", job)}
            for number in range(min(int(series.value(now)), MOST_UNSEEN)):
                if str(number) not in seen:
                    yield Subject("rank", str(number), job=job.job)

    def judge_events(self, now: float) -> list[Judgement]:
        """What the rule says about each subject of its events."""
        by_subject: dict[Subject | None, list[Event]] = {}
        for kind in self.rule.events:
            for subject, run in self._window.events(kind).items():
                by_subject.setdefault(subject, []).extend(run)
        self._answers.begin()
        judged = [self._judge_subject(subject, events, now) for subject, events in by_subject.items()]
        return judged if self._window.sees_all(self.rule.events) else [*judged, *self._unseeable(by_subject)]

    def _unseeable(self, told: Iterable[Subject | None]) -> Iterator[Judgement]:
        """Undecided for each place where a collector cannot see such events, and from which none was told."""
        rule, window = self.rule, self._window
        gaps: dict[Subject, list[Gap]] = {}
        for kind in rule.events:
            for absent in window.absences(kind):
                gap = Gap(kind, absent.reason, absent.remedy, absent.expected)
                gaps.setdefault(absent.subject, []).append(gap)
        seen = {place for subject in told if subject for place in (subject, window.related(subject, "host"))}
        for place, missing in gaps.items():
            if place not in seen:
                yield Judgement(rule, place, "undecided", None, tuple(dict.fromkeys(missing)))

    def _judge_subject(self, subject: Subject | None, events: list[Event], now: float) -> Judgement:
        hits: list[Event] = []
        gaps: list[Gap] = []
        for event in sorted(events, key=self._order):
            answer = self._answer(subject, event, now)
            if answer.truth:
                hits.append(event)
            gaps += answer.gaps
        if hits and not self._is_over(subject, now):
            firing = self._fires_for(subject, hits[0], now)
            return firing._replace(events=tuple(hits), since=self._window.time_of(hits[0]))
        if gaps and not hits:
            return Judgement(self.rule, subject, "undecided", None, tuple(dict.fromkeys(gaps)))
        return Judgement(self.rule, subject, "quiet")

    def _order(self, event: Event) -> tuple[float, int]:
        time = self._window.time_of(event)
        return (float("inf") if time is None else time, event.order)

    def _event_frame(self, subject: Subject | None, event: Event, now: float) -> Frame:
        """The frame of an event: some seconds after it, when its traces have been collected, or now if that is sooner.

        The moment is a whole second, so that what is asked of all ranks is found once for those that fail together.
        """
        time = self._window.time_of(event)
        moment = now if time is None else min(now, math.ceil(time + self.rule.settle_seconds))
        frame = Frame(self._evaluation.past().at(moment), subject, None)
        frame.lets = self._program.blank_lets[:]
        frame.event = event
        return frame

    def _settled(self, event: Event, now: float) -> bool:
        time = self._window.time_of(event)
        return time is not None and now > time + self.rule.settle_seconds + SETTLED_SECONDS

    def _answer(self, subject: Subject | None, event: Event, now: float) -> Answer:
        """Whether an event fulfils the condition."""
        settled = self._settled(event, now)
        answer = self._answers.of(event, now) if settled else None
        if answer is None:
            try:
                answer = Answer(event, bool(self._when(self._event_frame(subject, event, now))), (), now)
            except Undecided as reason:
                answer = Answer(event, None, reason.gaps, now)
        if settled:
            self._answers.keep(answer)
        return answer

    def _fires_for(self, subject: Subject | None, event: Event, now: float) -> Judgement:
        """The judgement that an event which fulfils the condition makes it fire."""
        answer = self._answers.of(event, now) if self._settled(event, now) else None
        if answer is not None and answer.firing is not None and 0 <= now - answer.at < AGAIN_SECONDS:
            return answer.firing
        firing = self._firing(self._event_frame(subject, event, now))
        if answer is not None:
            self._answers.keep(answer._replace(firing=firing, at=now))
        return firing

    def _is_over(self, subject: Subject | None, now: float) -> bool:
        try:
            return bool(self._until(self._evaluation.at(now).frame(subject)))
        except Undecided:
            return False

    def _firing(self, frame: Frame) -> Judgement:
        """The judgement that it fires, with everything that its texts need."""
        rule, window, event = self.rule, self._window, frame.event
        values: dict[str, Any] = {name: threshold.value for name, threshold in rule.thresholds.items()}
        signals: dict[str, Reading] = {}
        for index, name in enumerate(self._program.let_names):
            values[name] = _value(self._lets[index], frame)
            if name in self._shown:
                for reading in self._readings(frame, self._program.let_reads[index]):
                    signals.setdefault(name, reading)
        if rule.each is not None:
            values[rule.each] = frame.binding
        if event is not None:
            values |= {
                field: event.fields.get(field) for kind in rule.events for field in window.registry.events[kind].fields
            }
            values["event"] = event.kind
        gpu = frame.subject and window.related(frame.subject, "gpu")
        job = frame.subject and window.related(frame.subject, "job")
        values["gpu"] = gpu.name if gpu else None
        return Judgement(
            rule,
            frame.subject,
            "firing",
            frame.binding,
            job=job.name if job else "",
            critical=_value(self._critical, frame) is True,
            values=values,
            signals=signals,
            readings=tuple(self._readings(frame, self._looked_at)),
            support=tuple(self._support(frame)),
            steps=tuple(number for number, step in enumerate(self._steps) if _value(step, frame) is True),
        )

    def _support(self, frame: Frame) -> Iterator[Event]:
        """The last event of each thing that the expressions ask of the whole incident."""
        for node in self._program.told:
            if node.like:
                continue
            try:
                yield from told.events(frame, node)[-1:]
            except Undecided:
                continue

    def _readings(self, frame: Frame, indices: Iterable[int]) -> Iterator[Reading]:
        for index in indices:
            try:
                series = frame.read(index)
                yield Reading(series.signal.name, series.subject, series.labels, series.value(frame.evaluation.now))
            except Undecided:
                continue


def _shown(rule: Rule, program: Program) -> tuple[frozenset[str], tuple[int, ...]]:
    """The lets that evidence is given of, and the readings that `when` looks at itself."""
    if rule.evidence:
        return frozenset(name for text in rule.evidence for words in text.values() for name in names_in(words)), ()
    if rule.when is None:
        return frozenset(), ()
    nodes = list(walk(rule.when.tree))
    lets = frozenset(node.name for node in nodes if isinstance(node, Name) and node.kind == "let")
    reads = dict.fromkeys(program.index(node) for node in nodes if isinstance(node, Read))
    signals = program.registry.signals
    return lets, tuple(index for index in reads if signals[program.reads[index].signal].type in ("gauge", "text"))


def _closure(program: Program, expression: Expression | None, *, default: bool) -> Closure:
    return program.closure(expression.tree) if expression is not None else lambda frame: default


def _value(closure: Callable[[Frame], Any], frame: Frame) -> Any:
    """The value of a closure, None where it is undecided."""
    try:
        return closure(frame)
    except Undecided:
        return None
