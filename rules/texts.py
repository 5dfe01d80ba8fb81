"""Texts for people: by language, with values filled in.

A template holds `{name}` or `{name:format}`; `{{` and `}}` are braces. Nothing else is interpreted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from aidiag.rules.expression.errors import did_you_mean
from aidiag.rules.expression.tree import TEXT, Type
from aidiag.rules.expression.units import OF_SIGNAL, PLAIN, SECONDS, TIMESTAMP

Text: TypeAlias = dict[str, str]
"""A text by language key. English is always there."""

ENGLISH = "en"
_FIELD = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)(?::([a-z]+))?\}|[{}]")
_UNKNOWN = {"en": "unknown", "zh": "未知"}
_YES = {"en": ("yes", "no"), "zh": ("是", "否")}


def in_language(text: Text, language: str) -> str:
    """The text in a language, else in English."""
    return text.get(language) or text.get(language.split("_")[0].split("-")[0]) or text.get(ENGLISH, "")


def render(template: str, values: Mapping[str, Any], language: str = ENGLISH, *, to_type: bool = False) -> str:
    """The template with its values. What is not known is said to be unknown; in a text `to_type`, a command, its name
    stands in its place in capitals, as something to put in.
    """

    def fill(found: re.Match[str]) -> str:
        if found[0] in ("{{", "}}"):
            return found[0][0]
        if found[1] is None:
            return found[0]
        value = values.get(found[1])
        if value is None and to_type:
            return found[1].upper()
        if value is None:
            return _UNKNOWN.get(language, _UNKNOWN[ENGLISH])
        if isinstance(value, bool):
            return _YES.get(language, _YES[ENGLISH])[not value]
        if isinstance(value, str):
            return value
        return FORMATS[found[2] or "number"](value)

    return _FIELD.sub(fill, template)


def faults(template: str, types: Mapping[str, Type]) -> list[tuple[str, str, int]]:
    """What is wrong with a template: message, hint, offset."""
    found: list[tuple[str, str, int]] = []
    for field in _FIELD.finditer(template):
        name, form, offset = field[1], field[2], field.start()
        if field[0] in ("{", "}"):
            found.append(("a single brace", "write {name}, {name:format}, or {{ for a brace", offset))
        elif name is None:
            continue
        elif name not in types:
            found.append((f"unknown name {name}", did_you_mean(name, types), offset))
        elif form is not None and form not in FORMATS:
            found.append(
                (f"unknown format {form}", did_you_mean(form, FORMATS) or f"known: {', '.join(FORMATS)}", offset)
            )
        elif types[name].name == "number" and types[name].dimension not in _SUITS[form or "number"]:
            hint = f"write {{{name}:{natural(types[name])}}}"
            found.append((f"{name} is in {types[name]}, not for the format {form or 'number'}", hint, offset))
    return found


def names_in(template: str) -> list[str]:
    """The names that a template shows."""
    return [field[1] for field in _FIELD.finditer(template) if field[1]]


def natural(kind: Type) -> str:
    """The format that suits the unit of a value best."""
    forms = ("number", "seconds", "bytes", "rate")
    return next((form for form in forms if kind.dimension in _SUITS[form]), "any")


def _trim(value: float, digits: int = 3) -> str:
    """A number with `digits` significant digits and no exponent where it can be read without."""
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    if not 1e-4 <= abs(value) < 1e6:
        return f"{value:.{digits}g}"
    text = f"{value:.{max(0, digits - len(str(int(abs(value)))) + (abs(value) < 1))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(value: float) -> str:
    """61 %"""
    return f"{value * 100:.1f} %" if 0 < abs(value) < 0.0995 else f"{value * 100:.0f} %"


def seconds(value: float) -> str:
    """350 ms, 4.2 s, 3 min 20 s, 2 h 5 min"""
    if abs(value) < 1e-3:
        return f"{_trim(value * 1e6)} µs" if value else "0 s"
    if abs(value) < 1:
        return f"{_trim(value * 1e3)} ms"
    if abs(value) < 120:
        return f"{_trim(value)} s"
    if abs(value) < 7200:
        return f"{int(value // 60)} min {int(value % 60)} s"
    return f"{int(value // 3600)} h {int(value % 3600 // 60)} min"


def size(value: float) -> str:
    """64 MiB, 1.5 GiB"""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{_trim(value)} {unit}"
        value /= 1024
    return f"{_trim(value)} TiB"


def rate(value: float) -> str:
    """12.5 GB/s"""
    for unit in ("B/s", "kB/s", "MB/s", "GB/s"):
        if abs(value) < 1000:
            return f"{_trim(value)} {unit}"
        value /= 1000
    return f"{_trim(value)} TB/s"


def count(value: float) -> str:
    """1,024"""
    return f"{value:,.0f}"


FORMATS: dict[str, Callable[[float], str]] = {
    "number": _trim,
    "count": count,
    "percent": percent,
    "seconds": seconds,
    "bytes": size,
    "rate": rate,
    "any": _trim,
}

_SUITS = {
    "count": {PLAIN, TIMESTAMP},
    "percent": {PLAIN},
    "seconds": {SECONDS},
    "bytes": {OF_SIGNAL["bytes"]},
    "rate": {OF_SIGNAL["bytes_per_second"]},
    "number": {PLAIN},
}
_SUITS["any"] = set(OF_SIGNAL.values()) | {SECONDS.over(PLAIN)}

BUILT_IN: dict[str, Type] = {
    "who": TEXT,
    "rank": TEXT,
    "ranks": TEXT,
    "host": TEXT,
    "hosts": TEXT,
    "targets": TEXT,
    "job": TEXT,
    "gpu": TEXT,
    "subjects": Type("number"),
}
"""Names that every template knows: who is concerned, in words; one and all ranks and hosts; how many subjects."""
