"""Units: literals such as 30s, 4GiB and 50%, and the algebra of dimensions.

Values are kept in the base units of signals (prometheus.io/docs/practices/naming): seconds, bytes, joules, degrees
Celsius, Unix timestamps. Counts, ratios, codes and plain numbers have no dimension. Decimal prefixes are powers of
1000, binary ones (KiB) powers of 1024 (IEC 80000-13).
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from aidiag.collectors.signal import Unit
from aidiag.rules.expression.errors import ExpressionError, did_you_mean


class Dimension(NamedTuple):
    """Exponents of the base units."""

    seconds: int = 0
    bytes: int = 0
    joules: int = 0
    celsius: int = 0
    timestamp: int = 0

    def times(self, other: Dimension) -> Dimension:
        """The dimension of a product."""
        return Dimension(*(a + b for a, b in zip(self, other, strict=True)))

    def over(self, other: Dimension) -> Dimension:
        """The dimension of a quotient."""
        return Dimension(*(a - b for a, b in zip(self, other, strict=True)))

    def __str__(self) -> str:
        if self == PLAIN:
            return "a plain number"
        if self == TIMESTAMP:
            return "a point in time"
        above = [_power(name, power) for name, power in zip(self._fields, self, strict=True) if power > 0]
        below = [_power(name, -power) for name, power in zip(self._fields, self, strict=True) if power < 0]
        return " per ".join([" ".join(above) or "1", *(name.removesuffix("s") for name in below)])


def _power(name: str, power: int) -> str:
    return name if power == 1 else f"{name}^{power}"


PLAIN = Dimension()
SECONDS = Dimension(seconds=1)
TIMESTAMP = Dimension(timestamp=1)
_BYTES = Dimension(bytes=1)
_RATE = Dimension(bytes=1, seconds=-1)
_HERTZ = Dimension(seconds=-1)
_WATTS = Dimension(joules=1, seconds=-1)

OF_SIGNAL: dict[Unit, Dimension] = {
    "": PLAIN,
    "ratio": PLAIN,
    "count": PLAIN,
    "code": PLAIN,
    "seconds": SECONDS,
    "bytes": _BYTES,
    "hertz": _HERTZ,
    "celsius": Dimension(celsius=1),
    "watts": _WATTS,
    "joules": Dimension(joules=1),
    "bytes_per_second": _RATE,
    "timestamp_seconds": TIMESTAMP,
}

_SIZES = {"B": 1.0} | {f"{p}B": 1000.0 ** (n + 1) for n, p in enumerate("KMGT")}
_SIZES |= {f"{p}iB": 1024.0 ** (n + 1) for n, p in enumerate("KMGT")}
_BITS = {f"{p}bit/s": 1000.0 ** (n + 1) / 8 for n, p in enumerate("KMGT")}

LITERALS: dict[str, tuple[float, Dimension]] = {
    "%": (0.01, PLAIN),
    "ns": (1e-9, SECONDS),
    "us": (1e-6, SECONDS),
    "ms": (1e-3, SECONDS),
    "s": (1.0, SECONDS),
    "min": (60.0, SECONDS),
    "m": (60.0, SECONDS),
    "h": (3600.0, SECONDS),
    "d": (86400.0, SECONDS),
    "Hz": (1.0, _HERTZ),
    "kHz": (1e3, _HERTZ),
    "MHz": (1e6, _HERTZ),
    "GHz": (1e9, _HERTZ),
    "W": (1.0, _WATTS),
    "kW": (1e3, _WATTS),
    "J": (1.0, Dimension(joules=1)),
    "C": (1.0, Dimension(celsius=1)),
    **{unit: (factor, _BYTES) for unit, factor in _SIZES.items()},
    **{f"{unit}/s": (factor, _RATE) for unit, factor in _SIZES.items()},
    **{unit: (factor, _RATE) for unit, factor in _BITS.items()},
}

NUMBER = r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_LITERAL = re.compile(rf"\s*(-?{NUMBER})\s*(\S*)\s*")


class Quantity(NamedTuple):
    """A number in base units, and its dimension."""

    value: float
    dimension: Dimension = PLAIN


def quantity(number: str, unit: str, offset: int = 0) -> Quantity:
    """The quantity that a literal means. Raises ExpressionError at `offset` for a unit that is not known."""
    value = float(number)
    if not math.isfinite(value):
        raise ExpressionError(f"{number} is too large", offset)
    if not unit:
        return Quantity(value)
    if unit not in LITERALS:
        hint = did_you_mean(unit, LITERALS) or f"known units: {', '.join(LITERALS)}"
        raise ExpressionError(f"unknown unit {unit}", offset + len(number), hint)
    factor, dimension = LITERALS[unit]
    return Quantity(value * factor, dimension)


def read_quantity(value: object) -> Quantity:
    """The quantity in a setting: a number, or text such as `10%`. Raises ExpressionError."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ExpressionError(f"{value!r} is not a number with an optional unit")
    if isinstance(value, str):
        found = _LITERAL.fullmatch(value)
        if found is None:
            raise ExpressionError(f"{value!r} is not a number with an optional unit", hint="write 10%, 30s or 4GiB")
        return quantity(found[1], found[2])
    if not math.isfinite(value):
        raise ExpressionError(f"{value!r} is not a finite number")
    return Quantity(float(value))
