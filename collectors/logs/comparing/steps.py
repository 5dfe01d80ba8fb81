"""Where the time of the steps went over a whole log: input, communication, checkpoints, waiting for the GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from aidiag.collectors.logs.comparing.found import RANKS_KEPT, found, rank_of
from aidiag.collectors.logs.comparing.timing_text import Timing, read_timing
from aidiag.collectors.observation import Event

KEPT = 512
"""Of the lines of a log so many are remembered; then every second one is dropped, again and again."""

FELT = 0.3
OFTEN = 0.15
"""Input that comes in bursts (a batch of each worker, then a long wait) shows in a part of the lines only."""

STEPS_USUAL = 15
OUT_OF_LINE = 10.0
"""A step after a save that takes so many times as long as the last ones holds the save."""

STEPS_FOR_MEAN = 100
"""A running mean that a program prints says little before so many steps: the first ones fill caches."""


@dataclass(slots=True)
class _Log:
    """The timings of one log."""

    timings: list[tuple[Timing, Event]] = field(default_factory=list)
    seen: int = 0
    stride: int = 1


class Steps:
    """Adds up what lines on steps, checkpoints and profiles say."""

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}
        self._saves: list[tuple[float, Event]] = []
        self._begun: dict[str, float] = {}
        self._gpu: tuple[float, Event] | None = None
        self._due: set[str] = set()
        self._rate = 0.0
        self._last_step = 0
        self._outside: list[tuple[float, float]] = []
        self._each: list[float] = []
        self._trained: list[float] = []
        self._rows: dict[str, tuple[float, int, Event]] = {}
        self._times: dict[str, float] = {}
        self._profiled = 0.0
        self._ranks: dict[int, tuple[float, int, Event]] = {}
        self._inputs: dict[int, tuple[float, int, Event]] = {}

    def add(self, event: Event) -> None:
        """Take note of a line."""
        if event.kind == "step_timed":
            self._step(event)
        elif event.kind == "checkpoint_timed":
            seconds = _seconds(event)
            if seconds is not None and event.fields.get("what") != "load":
                self._saves.append((seconds, event))
                del self._saves[:-KEPT]
        elif event.kind in ("checkpoint_done", "rank_busy", "steps_interval"):
            self._save(event)
        elif event.kind == "training_timed":
            seconds = _seconds(event)
            if seconds is not None:
                self._trained.append(seconds)
                del self._trained[:-KEPT]
        elif event.kind == "profile_row":
            self._row(event)
        elif event.kind == "rank_step":
            self._own(event, event.fields.get("seconds"))
        elif event.kind == "gpu_utilization":
            percent = event.fields.get("percent")
            if isinstance(percent, int | float) and (self._gpu is None or percent > self._gpu[0]):
                self._gpu = (float(percent), event)

    def finish(self) -> Iterator[Event]:
        """What the lines say in all."""
        for log in self._logs.values():
            yield from self._of_log(log)
        yield from self._of_saves()
        yield from self._of_rows()
        yield from self._of_ranks()
        if self._gpu is not None:
            yield found("gpu_use", self._gpu[1], highest=self._gpu[0])

    # steps

    def _step(self, event: Event) -> None:
        log = self._logs.setdefault(event.place.source if event.place else "", _Log())
        log.seen += 1
        if log.seen % log.stride:
            return
        timing = read_timing(event.place.text if event.place else "")
        for what in ("input", "compute", "step"):
            value = event.fields.get(what)
            if isinstance(value, int | float):
                timing.values[what] = float(value)
        percent = event.fields.get("percent")
        if event.fields.get("what") in ("input", "comm") and isinstance(percent, int | float):
            timing.shares[str(event.fields["what"])] = percent / 100
        self._own(event, timing.values.get("compute"))
        self._note(self._inputs, event, timing.values.get("input"))
        if "step" in timing.values:
            self._one_step(event, timing.values["step"])
        log.timings.append((timing, event))
        if len(log.timings) >= KEPT:
            del log.timings[1::2]
            log.stride *= 2

    def _own(self, event: Event, seconds: object) -> None:
        """The time of a rank's own work for a step."""
        self._note(self._ranks, event, seconds)

    @staticmethod
    def _note(ranks: dict[int, tuple[float, int, Event]], event: Event, seconds: object) -> None:
        rank = rank_of(event)
        if rank is not None and isinstance(seconds, int | float) and (rank in ranks or len(ranks) < RANKS_KEPT):
            total, count, _ = ranks.get(rank, (0.0, 0, event))
            ranks[rank] = (total + seconds, count + 1, event)

    def _of_log(self, log: _Log) -> Iterator[Event]:
        shares: dict[str, float] = {}
        at: Event | None = None
        for what in ("input", "comm"):
            share, event = _share(log.timings, what)
            if share is not None and event is not None:
                shares[what] = share
                at = event if at is None or share > 0.2 else at
        if at is None:
            return
        last = next((one for one, _ in reversed(log.timings) if "step" in one.values), None)
        yield found(
            "steps_timed",
            at,
            input_share=shares.get("input"),
            comm_share=shares.get("comm"),
            step_seconds=last.values["step"] if last else None,
            steps=len(log.timings),
        )

    # ranks

    def _of_ranks(self) -> Iterator[Event]:
        own = {rank: total / count for rank, (total, count, _) in self._ranks.items()}
        for kind, ranks in (("rank_slower", self._ranks), ("rank_input_slower", self._inputs)):
            means = {rank: total / count for rank, (total, count, _) in ranks.items()}
            if len(means) < 3:
                continue
            usual = sorted(means.values())[(len(means) - 1) // 2]
            slowest = max(means, key=lambda rank: means[rank])
            if usual > 0:
                # Beside the work of the same step: a hundred times of next to nothing is nothing.
                excess, work = means[slowest] - usual, own.get(slowest)
                part = excess / (excess + work) if work is not None and kind == "rank_input_slower" else None
                ratio = means[slowest] / usual
                yield found(kind, ranks[slowest][2], seconds=means[slowest], usual=usual, ratio=ratio, part=part)

    # checkpoints

    def _save(self, event: Event) -> None:
        """A save that is told by its beginning and end, or by how much longer the steps around it took."""
        source = event.place.source if event.place else ""
        if event.kind == "rank_busy":
            if event.fields.get("what") != "save":
                self._due.discard(source)  # what comes next is not the time of a save alone
            else:
                self._due.add(source)
                if event.unix is not None:
                    self._begun[source] = event.unix
        elif event.kind == "checkpoint_done":
            begun = self._begun.pop(source, None)
            if begun is not None and event.unix is not None and event.unix > begun:
                self._saves.append((event.unix - begun, event))
        elif isinstance(each := event.fields.get("each"), int | float):
            self._one_step(event, float(each))
        else:
            rate, seconds, step = (event.fields.get(name) for name in ("rate", "seconds", "step"))
            if isinstance(rate, int | float):
                self._rate = max(self._rate, rate)
            elif isinstance(seconds, int | float) and isinstance(step, int):
                steps, self._last_step = step - self._last_step, step
                if source in self._due and self._rate > 0 and steps > 0:
                    self._saves.append((max(0.0, seconds - steps / self._rate), event))
                    self._outside.append((self._saves[-1][0], seconds))
                self._due.discard(source)
            elif event.unix is not None:
                self._begun[source] = event.unix

    def _one_step(self, event: Event, seconds: float) -> None:
        """The time of a step. The first one after a save holds the save where it takes many times as long as others."""
        source = event.place.source if event.place else ""
        if source not in self._due:
            self._each = [*self._each[-STEPS_USUAL + 1 :], seconds]
            return
        self._due.discard(source)
        usual = _middle(self._each) if self._each else 0.0
        if usual > 0 and seconds >= OUT_OF_LINE * usual:
            self._saves.append((seconds - usual, event))

    def _of_saves(self) -> Iterator[Event]:
        if not self._saves:
            return
        longest, event = max(self._saves, key=lambda one: one[0])
        times = sorted(one.unix for _, one in self._saves if one.unix is not None)
        every = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 and times[-1] > times[0] else None
        mean = sum(seconds for seconds, _ in self._saves) / len(self._saves)
        share = min(1.0, mean / every) if every else None
        if self._outside:
            share = sum(outside for outside, _ in self._outside) / sum(whole for _, whole in self._outside)
        elif share is None and self._trained:
            saving = mean * min(len(self._saves), len(self._trained))
            share = saving / (saving + sum(self._trained))
        yield found("saves_timed", event, seconds=longest, saves=len(self._saves), share=share, every=every)

    # profiles

    def _row(self, event: Event) -> None:
        name, text = str(event.fields.get("name", "")), event.place.text if event.place else ""
        what = next((what for what, names in _ROWS.items() if names.search(name)), None)
        percent = _percent(text)
        times = [float(number) * _UNITS[unit] for number, unit in _DURATION.findall(text)]
        seconds = event.fields.get("seconds")
        if name == _WHOLE and times:
            self._profiled = max(self._profiled, times[0])
        elif isinstance(seconds, int | float):
            self._profiled = max(self._profiled, float(seconds))
        if what is not None and (row := _FUNCTION_ROW.match(text)):  # of cProfile
            percent, times = None, [float(row["cumulative"])]
        if what is None:
            return
        if percent is None and times:
            self._times[what] = max(self._times.get(what, 0.0), *times)
        percent = percent or 0.0
        calls = re.findall(r"(?<![\d.])(\d{1,9})(?![\d.%])", text)
        before = self._rows.get(what)
        counted = int(calls[-1]) if calls else 0
        if before is None or (percent, counted) > before[:2]:
            self._rows[what] = (percent, counted, event)

    def _of_rows(self) -> Iterator[Event]:
        if not self._rows:
            return
        for what, seconds in self._times.items():
            percent, calls, event = self._rows[what]
            if percent == 0 and 0 < seconds <= self._profiled:
                self._rows[what] = (100 * seconds / self._profiled, calls, event)
        for what in self._rows:
            percent, _, event = self._rows[what]
            if percent != max(one[0] for one in self._rows.values()):
                continue
            yield found(
                "profile_read",
                event,
                sync_percent=self._part("sync"),
                sync_calls=self._rows["sync"][1] if "sync" in self._rows else None,
                input_percent=self._part("input"),
                launch_percent=self._part("launch"),
                comm_percent=self._part("comm"),
            )
            return

    def _part(self, what: str) -> float | None:
        return self._rows[what][0] if what in self._rows else None


_WHOLE = "Self CPU time total"
_FUNCTION_ROW = re.compile(
    r"\s{0,16}\d{1,12}(?:/\d{1,12})?\s{1,12}\d{1,9}\.\d{3}\s{1,12}\d{1,9}\.\d{3}\s{1,12}(?P<cumulative>\d{1,9}\.\d{3})\s{1,12}\d{1,9}\.\d{3}\s"
)
"""A row of cProfile: calls, own seconds, each, seconds with all that is called from there, each."""
_DURATION = re.compile(r"(?<![\w.])(\d{1,12}(?:\.\d{1,6})?)(us|ms|s)(?!\w)")
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}

_ROWS = {
    "sync": re.compile(r"item|^cpu$|cuda_synchronize|_local_scalar_dense|Synchronize|nonzero|tolist|\.cpu|is_nonzero"),
    "input": re.compile(r"DataLoader|dataloader|_get_data|__next__|get_train_batch|fetch|next_batch|train_data"),
    "launch": re.compile(r"LaunchKernel"),
    "comm": re.compile(r"nccl|all_?reduce|AllReduce|reduce_scatter|all_?gather", re.IGNORECASE),
}


def _share(timings: list[tuple[Timing, Event]], what: str) -> tuple[float | None, Event | None]:
    """The part of the steps that went to `what`, and the line that shows it best."""
    said = [(share, one, event) for one, event in timings if (share := one.share(what)) is not None]
    if not said:
        parts = [(one.values[what], event) for one, event in timings if what in one.values]
        wholes = [one.values["step"] for one, _ in timings if "step" in one.values]
        rest = [one.values["compute"] for one, _ in timings if "compute" in one.values]
        if not parts or not (wholes or rest):
            return None, None
        part = _middle([value for value, _ in parts])
        whole = _middle(wholes) if wholes else part + _middle(rest)
        return (min(1.0, part / whole) if whole > 0 else None), parts[-1][1]
    steady = [one for one in said[1:] if one[1].step != 0] if len(said) > 2 else said
    steady = steady or said
    middle = _middle([share for share, _, _ in steady])
    if sum(share >= FELT for share, _, _ in steady) >= OFTEN * len(steady):
        middle = max(middle, _of_all(steady, what))
    _, last, event = steady[-1]
    mean = last.share(what, mean=True)
    event = min(steady, key=lambda one: abs(one[0] - middle))[2]
    if mean is None:
        return middle, event
    if last.step is not None and last.step >= STEPS_FOR_MEAN:
        return mean, steady[-1][2]
    return min(mean, middle), event


def _of_all(said: list[tuple[float, Timing, Event]], what: str) -> float:
    """The part of all steps together: one wait in a dozen steps can be most of their time."""
    parts = sum(one.values.get(what, 0.0) for _, one, _ in said)
    wholes = sum(
        one.values[what] / share if share and what in one.values else one.values.get("step", 0.0)
        for share, one, _ in said
    )
    return parts / wholes if wholes > 0 else 0.0


def _middle(values: list[float]) -> float:
    return sorted(values)[(len(values) - 1) // 2]


def _percent(text: str) -> float | None:
    """The part of the whole that a row of a table states: the largest with a percent sign, else its last or first cell."""
    signed = [float(one) for one in re.findall(r"(\d{1,3}(?:\.\d{1,4})?)\s?%", text)]
    if signed:
        return max(signed)
    cells = [cell.strip() for cell in text.split("|") if cell.strip()]
    if len(cells) >= 4:
        last = re.fullmatch(r"\d{1,3}(?:\.\d{1,6})?", cells[-1])
        return float(last[0]) if last and float(last[0]) <= 100 else None
    first = re.match(r"\s{0,40}(\d{1,3}\.\d{1,3})\s", text)
    return float(first[1]) if first and float(first[1]) <= 100 else None


def _seconds(event: Event) -> float | None:
    for name, scale in (("seconds", 1.0), ("ms", 0.001), ("minutes", 60.0)):
        value = event.fields.get(name)
        if isinstance(value, int | float):
            return float(value) * scale
    return None
