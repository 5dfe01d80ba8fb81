"""A counter over time: resets, wraps and counters that are full."""

from __future__ import annotations

from array import array
from bisect import bisect_right

from aidiag.collectors.observation import Labels
from aidiag.collectors.signal import Signal
from aidiag.collectors.subject import Subject
from aidiag.rules.history.series import COVERED, GRAIN_SECONDS, TRIM_EVERY, Series, known
from aidiag.rules.undecided import Undecided, undecided


class Counter(Series[float]):
    """A value that only grows until it resets, kept as what it grew in total since it was first read.

    A smaller value than before is a reset, and what it shows now has been counted since; one of at least half of the
    value before is a source that corrected itself (workers that ended and are no longer summed), and adds nothing. With
    `width_bits`, a counter that stands at its largest value has stopped (classic InfiniBand counters do), so that its
    growth is not known; one that falls from near its end to near zero has wrapped.
    """

    __slots__ = ("_limit", "_raw", "totals")

    def __init__(self, signal: Signal, subject: Subject, labels: Labels, horizon_seconds: float) -> None:
        super().__init__(signal, subject, labels, horizon_seconds)
        self.totals = array("d")
        self._raw = 0.0
        self._limit = float((1 << signal.width_bits) - 1) if signal.width_bits else None

    def add(self, time: float, value: float) -> None:
        """Take a reading."""
        if not known(value):
            return
        times, totals = self.times, self.totals
        if not times:
            times.append(time)
            totals.append(0.0)
            self._raw = value
            return
        if time <= times[-1]:
            return
        raw = self._raw
        total = totals[-1] + (value - raw if value >= raw else self._after_fall(raw, value))
        self._raw = value
        if len(times) > 1 and (total == totals[-1] == totals[-2] or time - times[-2] < GRAIN_SECONDS):
            times[-1] = time
            totals[-1] = total
            return
        times.append(time)
        totals.append(total)
        if len(times) % TRIM_EVERY == 0:
            self._trim(totals)

    def _after_fall(self, raw: float, value: float) -> float:
        limit = self._limit
        if limit is not None and raw < limit and raw > 0.75 * limit and value < 0.25 * limit:
            return value + limit + 1 - raw
        return 0.0 if value >= raw / 2 else value

    def value(self, now: float) -> float:
        """The reading as of `now`, as it was read where it is the newest."""
        index = self._fresh_index(now)
        return self._raw - (self.totals[-1] - self.totals[index])

    def last(self, now: float, seconds: float) -> float:
        """The last reading in the window, also where it is stale by now."""
        index = self._index(now)
        if now - self.times[index] > seconds:
            raise undecided(self.what, f"not read in the last {seconds:.0f} s")
        return self._raw - (self.totals[-1] - self.totals[index])

    def rate(self, now: float, seconds: float) -> float:
        """Growth a second."""
        growth, span = self._growth(now, seconds)
        return growth / span

    def delta(self, now: float, seconds: float) -> float:
        """Growth over the window."""
        return self._growth(now, seconds)[0]

    def changed(self, now: float, seconds: float) -> bool:
        """Whether it grew within the window. Growth that was seen is enough, however short the view."""
        index = self._fresh_index(now)
        before = max(0, bisect_right(self.times, now - seconds) - 1)
        if self.totals[index] > self.totals[before]:
            return True
        return self._growth(now, seconds)[0] > 0

    def _growth(self, now: float, seconds: float) -> tuple[float, float]:
        times, totals = self.times, self.totals
        index = self._fresh_index(now)
        if self._limit is not None and self._raw >= self._limit:
            raise self._full()
        end, start = times[index], now - seconds
        if start <= times[0]:
            start, base = times[0], totals[0]
        else:
            after = bisect_right(times, start)
            if after > index:  # the newest reading is older than the window
                raise self._uncovered(0.0, seconds)
            t0, t1, v0, v1 = times[after - 1], times[after], totals[after - 1], totals[after]
            base = v0 + (v1 - v0) * (start - t0) / (t1 - t0)
        span = end - start
        if span < seconds * COVERED:
            raise self._uncovered(span, seconds)
        return totals[index] - base, span

    def _fresh_index(self, now: float) -> int:
        index = self._index(now)
        if index == len(self.times) - 1 and now - self.times[index] > self.max_age:
            raise self._stale(now - self.times[index])
        return index

    def _full(self) -> Undecided:
        reason = f"the counter has stopped at its largest value {self._limit:.0f}"
        return undecided(self.what, reason, "clear the counter, for a port with: perfquery -R")
