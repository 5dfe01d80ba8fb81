"""Where compiled expressions run: one subject of a history at one moment."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from aidiag.collectors.observation import Absent, Event, Labels
from aidiag.collectors.subject import Subject, SubjectKind
from aidiag.rules.expression.tree import Read
from aidiag.rules.history.events import Run
from aidiag.rules.history.series import Series
from aidiag.rules.undecided import Undecided, undecided

if TYPE_CHECKING:
    from aidiag.rules.expression.program import Program

Value: TypeAlias = float | bool | str
Closure: TypeAlias = "Callable[[Frame], Any]"

UNSET: Any = object()
GROUP_EACH_SECOND = 256
"""A group of up to so many members is asked for at each second of the past."""
_MOST_KEPT = 65_536


class History(Protocol):
    """What expressions ask: a Window."""

    version: int
    generation: int

    def series(self, signal: str, subject: Subject, labels: Labels = ()) -> Series[Any] | None:
        """The series of a signal, None where there has been no reading."""

    def series_of(self, signal: str, subject: Subject) -> Sequence[Series[Any]]:
        """The series of a signal for all its labels."""

    def missing(self, signal: str, subject: Subject | None, labels: Labels = ()) -> Undecided:
        """Why there is no reading."""

    def absence(self, signal: str, subject: Subject | None, labels: Labels = ()) -> Absent | None:
        """What a collector said about the absence of a signal or event kind."""

    def events(self, kind: str) -> dict[Subject | None, Run]:
        """The events of a kind by subject."""

    def events_of(self, kind: str, subject: Subject) -> Iterable[Run]:
        """The events of a kind that concern a subject."""

    def time_of(self, event: Event) -> float | None:
        """When an event happened."""

    def related(self, subject: Subject, kind: SubjectKind) -> Subject | None:
        """The one subject of `kind` that `subject` belongs to or uses."""

    def members(self, kind: SubjectKind, root: Subject) -> Sequence[Subject]:
        """The subjects of `kind` on a host or in a job."""


class Frame:
    """One subject (None: nobody knows which), the label that `each` binds, and an event, at the evaluation's moment."""

    __slots__ = ("binding", "epoch", "evaluation", "event", "lets", "series", "subject")

    def __init__(self, evaluation: Evaluation, subject: Subject | None, binding: str | None) -> None:
        self.evaluation = evaluation
        self.subject = subject
        self.binding = binding
        self.event: Event | None = None
        self.epoch = -1
        self.lets: list[Any] = []
        self.series: list[Any] = []

    def read(self, index: int) -> Series[Any]:
        """The series that a reading of the program means here. Raises Undecided where there is none."""
        try:
            found = self.series[index]
        except IndexError:
            self.series += [UNSET] * (len(self.evaluation.program.reads) - len(self.series))
            found = UNSET
        if found is UNSET:
            found = self.series[index] = self._find(self.evaluation.program.reads[index])
        if found is None:
            raise self.missing(index)
        return found  # type: ignore[no-any-return]

    def missing(self, index: int) -> Undecided:
        """Why a reading has no series."""
        read = self.evaluation.program.reads[index]
        return self.evaluation.history.missing(read.signal, self._subject_of(read) or self.subject, self._labels(read))

    def _find(self, read: Read) -> Series[Any] | None:
        subject = self._subject_of(read)
        if subject is None:
            return None
        history = self.evaluation.history
        if self.evaluation.program.registry.signals[read.signal].type == "info":
            series = [one for one in history.series_of(read.signal, subject) if one.times]
            return max(series, key=lambda one: one.times[-1], default=None)
        return history.series(read.signal, subject, self._labels(read))

    def _subject_of(self, read: Read) -> Subject | None:
        scope = self.evaluation.program.registry.signals[read.signal].scope
        return self.subject and self.evaluation.history.related(self.subject, scope)

    def _labels(self, read: Read) -> Labels:
        return tuple((name, self.binding or "" if value is None else value) for name, value in read.labels)


class Evaluation:
    """A program over a history. It keeps what it has found until the moment or the history changes."""

    def __init__(self, program: Program, history: History) -> None:
        self.program = program
        self.history = history
        self.now = 0.0
        self.epoch = 0
        self.groups: dict[Any, Any] = {}
        """What group functions have found, by function, group and moment, while the history stays as it is."""
        self._stamp: tuple[float, int] | None = None
        self._generation = -1
        self._frames: dict[tuple[Subject | None, str | None], Frame] = {}
        self._past: Evaluation | None = None
        self._present: Evaluation | None = None

    def at(self, now: float) -> Evaluation:
        """Turn to a moment."""
        history = self.history
        if self._generation != history.generation:
            self._generation = history.generation
            self._frames.clear()
        if self._stamp != (now, history.version):
            if self._stamp is None or self._stamp[1] != history.version or len(self.groups) > _MOST_KEPT:
                self.groups.clear()
            self._stamp = (now, history.version)
            self.now = now
            self.epoch += 1
        return self

    def frame(self, subject: Subject | None, binding: str | None = None) -> Frame:
        """The frame of a subject at this moment."""
        frame = self._frames.get((subject, binding))
        if frame is None:
            frame = self._frames[subject, binding] = Frame(self, subject, binding)
        if frame.epoch != self.epoch:
            frame.epoch = self.epoch
            frame.lets = self.program.blank_lets[:]
        return frame

    def past(self) -> Evaluation:
        """The same program and history, free to turn to other moments."""
        if self._past is None:
            self._past = Evaluation(self.program, self.history)
            self._past._present = self._present or self
        return self._past

    def for_group(self, members: int) -> Evaluation:
        """Where to ask for a group of so many members. Of a past in which something happened each second a large group is
        asked for at fewer moments, a little later, so that the work grows with its members and not with their square.
        """
        grain_seconds = -(-members // GROUP_EACH_SECOND)
        if self._present is None or grain_seconds <= 1:
            return self
        moment = min(self._present.now, math.ceil(self.now / grain_seconds) * grain_seconds)
        return self if moment == self.now else self.past().at(moment)


def unattributed(what: str) -> Undecided:
    """Nobody knows which subject something belongs to."""
    return undecided(what, "it is not known which subject this belongs to")
