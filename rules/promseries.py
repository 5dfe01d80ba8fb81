"""Series for rule tests in promtool's notation (prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules).

`0+2x60` is 0, 2, 4 … 120 (61 readings), `5x3` is 5 four times, `1 2 _ 4` are single readings with one left out, `_x10`
leaves ten out. A word stands for itself: `DOWNx60`, `'Phy Test'x5`.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from aidiag.collectors.observation import Labels
from aidiag.collectors.signal import EventKind, Registry, Signal
from aidiag.collectors.subject import Subject

MOST_READINGS = 100_000
DEFAULT_HOST = "a"
DEFAULT_JOB = "j"

Readings: TypeAlias = list[float | str | None]

_NUMBER = r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
_PART = re.compile(
    rf"""(?:(?P<missing>_)
        |(?P<start>{_NUMBER})(?:(?P<sign>[-+])(?P<step>\d+(?:\.\d+)?(?:[eE][-+]?\d+)?))?
        |'(?P<quoted>[^']*)'
        |(?P<word>[A-Za-z]\w*?))
        (?:x(?P<times>\d+))?(?=\s|$)""",
    re.VERBOSE,
)
_SERIES = re.compile(r"([a-z_][a-z0-9_]*)(?:\{(.*)\})?")
_LABEL = re.compile(r'\s*([a-z_][a-z0-9_]*)\s*=\s*"([^"]*)"\s*(?:,|$)')

_OWN_LABELS = {
    "rank": ("rank",),
    "gpu": ("gpu",),
    "port": ("device", "port"),
    "nic": ("device",),
    "host": (),
    "job": (),
}


def expand(notation: str) -> Readings:
    """The readings that a notation stands for; None where one is left out. Raises ValueError."""
    found: Readings = []
    position = 0
    notation = notation.strip()
    while position < len(notation):
        part = _PART.match(notation, position)
        if part is None:
            raise ValueError(f"{notation[position : position + 20]!r} is no series; write 0+2x60, 5x3, 1 2 _ 4")
        times = int(part["times"] or 0)
        if times > MOST_READINGS:
            raise ValueError(f"more than {MOST_READINGS} readings")
        if part["missing"]:
            found += [None] * max(1, times)
        elif part["start"] is None:
            found += [part["word"] or part["quoted"]] * (times + 1)
        else:
            step = float(part["step"] or 0) * (-1 if part["sign"] == "-" else 1)
            found += [float(part["start"]) + step * number for number in range(times + 1)]
        position = part.end()
        while position < len(notation) and notation[position].isspace():
            position += 1
    return found


def read_series(name: str, registry: Registry) -> tuple[Signal, Subject, Labels]:
    """The signal, subject and labels of `steps_total{rank="0"}`. Raises ValueError."""
    found = _SERIES.fullmatch(name.strip())
    if found is None:
        raise ValueError(f'{name!r} is no series; write steps_total{{rank="0"}}')
    signal = registry.signals.get(found[1])
    if signal is None:
        raise ValueError(f"there is no signal {found[1]}")
    labels = dict(_labels(found[2] or ""))
    subject = read_subject(signal.scope, labels)
    if set(labels) != set(signal.labels):
        raise ValueError(
            f"{signal.name} has the labels {', '.join(signal.labels) or 'none'} beside those of its subject"
        )
    return signal, subject, tuple(sorted(labels.items()))


def read_subject(kind: str, labels: dict[str, str]) -> Subject:
    """The subject of a kind that labels name; they are taken out. Host and job are `a` and `j` where none is named."""
    host = labels.pop("host", "") or labels.pop("node", "") or DEFAULT_HOST
    job = labels.pop("job", "") or DEFAULT_JOB
    try:
        own = [labels.pop(label) for label in _OWN_LABELS[kind]]
    except KeyError as missing:
        raise ValueError(f"the label {missing.args[0]} is missing") from None
    match kind:
        case "rank":
            return Subject("rank", own[0], host="" if host == "?" else host, job=job)
        case "job":
            return Subject("job", job, job=job)
        case "host":
            return Subject("host", host, host=host)
        case "gpu":
            return Subject("gpu", f"gpu{own[0]}", host=host)
        case "port":
            return Subject("port", ":".join(own), host=host)
        case _:
            return Subject("nic", own[0], host=host)


def read_event_subject(kind: EventKind, where: dict[str, str]) -> Subject | None:
    """The subject of an event of a test: a rank where one is named, else one of the kind's scope; None for `nobody`."""
    if where.pop("nobody", ""):
        return None
    return read_subject("rank" if "rank" in where else kind.scope, where)


def _labels(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    position = 0
    while position < len(text):
        label = _LABEL.match(text, position)
        if label is None:
            raise ValueError(f'{text[position:]!r} is no label; write name="value"')
        found.append((label[1], label[2]))
        position = label.end()
    return found
