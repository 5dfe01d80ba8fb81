"""One signal of one subject over time, in little memory.

Points are at least GRAIN_SECONDS apart, a value that stays is kept as the two ends of its run, and what is older than
the horizon is dropped. Where readings failed to come for longer than `Signal.max_age_seconds`, a gap is kept: nobody
knows the value there. Every question is put as of a time `now`, so that the past can be asked too. A question about a
window needs readings for at least half of it. Answers that cannot be given are raised as Undecided.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import Generic, TypeVar

from aidiag.collectors.observation import Labels
from aidiag.collectors.signal import Signal
from aidiag.collectors.subject import Subject
from aidiag.rules.undecided import Undecided, undecided

GRAIN_SECONDS = 0.5
LARGEST_POINTS = 2_048
COVERED = 0.5
"""Part of a window that must have been observed."""

TRIM_EVERY = 64
_NAN = float("nan")

V = TypeVar("V", float, str)


def known(value: object) -> bool:
    """False for what stands for a gap: NaN among numbers, None among texts."""
    return value is not None and value == value  # noqa: PLR0124


class Series(ABC, Generic[V]):
    """What all series share: the times, and how old the newest reading is."""

    __slots__ = ("horizon", "labels", "max_age", "signal", "subject", "times")

    def __init__(self, signal: Signal, subject: Subject, labels: Labels, horizon_seconds: float) -> None:
        self.signal = signal
        self.subject = subject
        self.labels = labels
        self.max_age = signal.max_age_seconds
        self.horizon = horizon_seconds
        self.times = array("d")

    @abstractmethod
    def add(self, time: float, value: V) -> None:
        """Take a reading. One that is older than the newest is left out."""

    @abstractmethod
    def value(self, now: float) -> V:
        """The value as of `now`."""

    @abstractmethod
    def last(self, now: float, seconds: float) -> V:
        """The last reading in the window, also where it is stale by now."""

    @abstractmethod
    def changed(self, now: float, seconds: float) -> bool:
        """Whether the value changed within the window."""

    def age(self, now: float) -> float:
        """Seconds since the last reading."""
        return now - self.times[self._index(now)]

    def fresh(self, now: float) -> bool:
        """Whether there is a reading that is not stale."""
        try:
            self.value(now)
        except Undecided:
            return False
        return True

    def changes(self, now: float, seconds: float) -> Iterator[float]:
        """The times in the window at which the value may have become another one."""
        times = self.times
        for index in range(bisect_right(times, now - seconds), bisect_right(times, now)):
            yield times[index]

    def _index(self, now: float) -> int:
        """The newest point that is not after `now`."""
        times = self.times
        if times and now >= times[-1]:
            return len(times) - 1
        index = bisect_right(times, now) - 1
        if index < 0:
            raise undecided(self.what, "not read yet")
        return index

    def _stale(self, age: float) -> Undecided:
        return undecided(self.what, f"last read {age:.0f} s ago")

    def _uncovered(self, covered: float, seconds: float) -> Undecided:
        return undecided(self.what, f"seen for {covered:.0f} s of the last {seconds:.0f} s only")

    @property
    def what(self) -> str:
        """The series in words, as Prometheus writes it."""
        inner = ",".join(f'{name}="{value}"' for name, value in self.labels)
        return f"{self.signal.name}{{{inner}}} of {self.subject}" if inner else f"{self.signal.name} of {self.subject}"

    def _trim(self, values: array[float] | list[V]) -> None:
        """Drop what is older than the horizon, and the oldest quarter where there are too many points."""
        times = self.times
        oldest = bisect_right(times, times[-1] - self.horizon) - 1
        if len(times) - oldest > LARGEST_POINTS:
            oldest = max(oldest, len(times) // 4)
        if oldest > 0:
            del times[:oldest]
            del values[:oldest]


class Gauge(Series[V]):
    """A value that comes and goes. A reading that is not a number counts as no reading."""

    __slots__ = ("_unknown", "values")

    values: array[float] | list[V]

    def __init__(self, signal: Signal, subject: Subject, labels: Labels, horizon_seconds: float) -> None:
        super().__init__(signal, subject, labels, horizon_seconds)
        self.values = [] if signal.type == "text" else array("d")
        self._unknown: object = None if signal.type == "text" else _NAN

    def add(self, time: float, value: V) -> None:
        """Take a reading."""
        if not known(value):
            return
        times, values = self.times, self.values
        if times:
            newest = times[-1]
            if time <= newest:
                return
            if time - newest > self.max_age:
                times.append(newest + self.max_age)
                values.append(self._unknown)  # type: ignore[arg-type]
            elif len(times) > 1:
                if value == values[-1] == values[-2]:
                    times[-1] = time
                    return
                if time - times[-2] < GRAIN_SECONDS:
                    times[-1] = time
                    values[-1] = value  # type: ignore[call-overload]
                    return
        times.append(time)
        values.append(value)  # type: ignore[arg-type]
        if len(times) % TRIM_EVERY == 0:
            self._trim(values)

    def value(self, now: float) -> V:
        """The value as of `now`."""
        index = self._index(now)
        age = now - self.times[index]
        found = self.values[index]
        if not known(found) or (index == len(self.times) - 1 and age > self.max_age):
            raise self._stale(age)
        return found  # type: ignore[return-value]

    def first(self, now: float, seconds: float) -> V:
        """The value at the start of the window."""
        return self._segments(now, seconds)[0][0]

    def last(self, now: float, seconds: float) -> V:
        """The last reading in the window, also where it is stale by now."""
        for index in range(self._index(now), -1, -1):
            found = self.values[index]
            if known(found):
                if now - self.times[index] > seconds:
                    break
                return found  # type: ignore[return-value]
        raise undecided(self.what, f"not read in the last {seconds:.0f} s")

    def changed(self, now: float, seconds: float) -> bool:
        """Whether the value changed within the window. A change that was seen is one, however short the view."""
        found = self._segments(now, seconds, least=0.0)
        if any(value != found[0][0] for value, _ in found):
            return True
        self._segments(now, seconds)
        return False

    def delta(self: Gauge[float], now: float, seconds: float) -> float:
        """The value now less the value at the start of the window."""
        found = self._segments(now, seconds)
        return found[-1][0] - found[0][0]

    def avg(self: Gauge[float], now: float, seconds: float) -> float:
        """The mean over time."""
        found = self._segments(now, seconds)
        return sum(value * length for value, length in found) / sum(length for _, length in found)

    def min(self: Gauge[float], now: float, seconds: float) -> float:
        """The smallest value."""
        return min(value for value, _ in self._segments(now, seconds))

    def max(self: Gauge[float], now: float, seconds: float) -> float:
        """The largest value."""
        return max(value for value, _ in self._segments(now, seconds))

    def p50(self: Gauge[float], now: float, seconds: float) -> float:
        """The value that half of the time does not exceed."""
        return _quantile(self._segments(now, seconds), 0.5)

    def p99(self: Gauge[float], now: float, seconds: float) -> float:
        """The value that 99 % of the time does not exceed."""
        return _quantile(self._segments(now, seconds), 0.99)

    def _segments(self, now: float, seconds: float, *, least: float = COVERED) -> list[tuple[V, float]]:
        """The known values in the window, each with how long it held."""
        times, values = self.times, self.values
        newest = self._index(now)
        age = now - times[newest]
        if newest == len(times) - 1 and age > self.max_age:
            raise self._stale(age)
        start = now - seconds
        index = max(0, bisect_right(times, start) - 1)
        found: list[tuple[V, float]] = []
        covered = 0.0
        while index <= newest:
            value = values[index]
            if known(value):
                end = times[index + 1] if index < newest else now
                length = end - max(times[index], start)
                covered += length
                found.append((value, length))  # type: ignore[arg-type]
            index += 1
        if covered < seconds * least or not found:
            raise self._uncovered(covered, seconds)
        return found


def _quantile(found: list[tuple[float, float]], part: float) -> float:
    found = sorted(found)
    wanted = part * sum(length for _, length in found)
    for value, length in found:
        wanted -= length
        if wanted <= 0:
            return value
    return found[-1][0]
