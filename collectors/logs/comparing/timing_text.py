"""Reads what a line of a training program says about the time of a step: names, numbers and units in any order.

`Time 0.52 (0.55)  Data 0.31 (0.30)`, `time: 0.52, data_time: 0.31`, `data wait 3.4 s/it  forward+backward 0.5 s/it`,
`batch-generator ......: (0.1, 210.5)`. What a number stands for is told by its name alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_PAIR = re.compile(
    r"(?P<name>[A-Za-z][A-Za-z_+/&. -]{0,47}?)[\"']?"
    r"(?:\s?[(\[](?P<head>ms|s|sec|seconds|msec)[)\]])?\s{0,3}(?:\.{2,80})?\s?[:=|]?\s{0,8}"
    r"(?:\(\s{0,4}(?P<least>\d{1,12}(?:\.\d{1,9})?), )?(?P<value>\d{1,12}(?:\.\d{1,9})?)"
    r"(?![\d:/]|e[+-]|\.\d)\s?(?P<unit>%|(?:ms|msec|milliseconds|s/it|s/iter|s/step|sec|secs|seconds|s)(?![\w/]))?"
    r"(?:(?:,[^(:=]{0,24})?\s{0,4}\(\s{0,4}(?P<mean>\d{1,12}(?:\.\d{1,9})?)\s?(?:s|ms|%)?[),])?"
)

_NAMES = {
    "input": re.compile(
        r"(?:.* )?(?:data(?: ?load(?:er|ing)?)?(?: (?:wait|time|fetch|iter|next|load|loading|waiting))*|data ?wait|datatime|data ?load(?:er)?time"
        r"|(?:get|fetch|load|next|loading|fetching)(?: train| next)? ?batch(?: time)?|batch generator|batch load(?:ing)?(?: time)?"
        r"|input (?:wait|time|pipeline)|loader (?:wait|time)|train dataloader next|wait(?:ing)? (?:for|on) (?:data|input|batch|dataloader)"
        r"|prefetch wait|reader cost|io time|host input|dataloading)"
    ),
    "comm": re.compile(
        r"(?:.* )?(?:bwd allreduce(?: microstep)?|all ?reduce|comm(?:unication|s)?|all grads sync|grad(?:ient)?s? (?:sync|all ?reduce|reduce|exchange)"
        r"|grads reduce scatter|params all gather|backward params all reduce|layernorm grads all reduce|embedding grads all reduce"
        r"|all ?gather|reduce ?scatter|nccl)(?: time)?"
    ),
    "step": re.compile(
        r"(?:.* )?(?:time|step ?time|iter(?:ation)? ?time|batch ?time|time per (?:step|iteration|iter|batch)|time/(?:iter|step)|elapsed time per iteration"
        r"|total ?time|it time|batch cost|timing)|step|iter|iteration|batch|total"
    ),
    "compute": re.compile(
        r"(?:.* )?(?:(?:forward|fwd)(?: ?[+/&]? ?(?:backward|bwd|back))?|backward|bwd|compute|forward compute|backward compute|model|gpu|optim(?:izer)?|train(?: step)?)"
        r"(?: (?:time|microstep|compute|step))*"
    ),
}  # fmt: skip
_NEEDS_UNIT = frozenset({"step", "iter", "iteration", "batch", "total", "model", "gpu", "train", "data"})
_STEP = re.compile(
    r"\[\s{0,8}(\d{1,9})/\d{1,9}\]|\b(?:iter|iteration|step|batch)[ :=]{1,3}\[?\s{0,6}(\d{1,9})\b", re.IGNORECASE
)


@dataclass(slots=True)
class Timing:
    """The seconds (or any one unit) of a step by what they went to, as a line tells; shares of a step likewise."""

    values: dict[str, float] = field(default_factory=dict)
    means: dict[str, float] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)
    step: int | None = None

    def share(self, what: str, *, mean: bool = False) -> float | None:
        """The part of the step that went to `what`."""
        if not mean and what in self.shares:
            return self.shares[what]
        values = self.means if mean else self.values
        part, step, compute = values.get(what), values.get("step"), values.get("compute")
        if part is None:
            return None
        whole = (step if step >= part else step + part) if step is not None else None
        if whole is None and compute is not None:
            whole = compute if what == "comm" and compute >= part else part + compute
        return part / whole if whole else None


def read_timing(text: str) -> Timing:
    """What a line says."""
    timing, bare = Timing(), False
    found = _STEP.search(text)
    if found:
        timing.step = int(found[1] or found[2])
    for pair in _PAIR.finditer(text):
        name = re.sub(r"[_\-.\s]+", " ", pair["name"]).strip().lower()
        unit = pair["unit"] or pair["head"] or ""
        what = next((what for what, names in _NAMES.items() if names.fullmatch(name)), None)
        if what is None:
            continue
        if name in _NEEDS_UNIT and not unit and "." not in pair["value"]:
            continue
        value = float(pair["value"])
        if unit == "%":
            timing.shares[what] = value / 100
            continue
        scale = 0.001 if unit.startswith(("ms", "milli")) or (pair["least"] and not unit) else 1.0
        if what == "compute":
            timing.values[what] = timing.values.get(what, 0.0) + value * scale
        else:
            timing.values.setdefault(what, value * scale)
        if pair["mean"]:
            timing.means.setdefault(what, float(pair["mean"]) * scale)
        bare = bare or name == "step"
    if bare and "compute" in timing.values and "step" in timing.values:
        timing.values["compute"] += timing.values.pop("step")  # beside forward and backward it is the optimizer's
    return timing
