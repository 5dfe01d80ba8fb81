"""Times as logs write them, to Unix seconds.

Most have no zone, and some no year. They are read as the local time of this machine, which the hosts of a cluster share
as a rule, and in the year that brings them nearest before the time at which the log was read.
"""

from __future__ import annotations

import re
import time
from calendar import timegm
from dataclasses import dataclass

_DAY_SECONDS = 86400.0
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"

_ISO = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)[T _](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?")
_GLOG = re.compile(r"(\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{1,9})")
_SYSLOG = re.compile(r"([A-Z][a-z]{2}) ([ \d]\d) (\d\d):(\d\d):(\d\d)")
_DAY = re.compile(r"(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?")
_US = re.compile(r"(\d\d)/(\d\d)/(\d{4}) (\d\d):(\d\d):(\d\d)")
_CTIME = re.compile(r"[A-Z][a-z]{2} ([A-Z][a-z]{2}) ([ \d]\d) (\d\d):(\d\d):(\d\d) (\d{4})")


@dataclass(frozen=True, slots=True)
class Stamp:
    """A time as it stands in a log, and the style in which it is written."""

    style: str
    text: str

    def unix(self, reference: float) -> float | None:
        """Seconds since 1970, None where the text is no time. `reference` is when the log was read."""
        try:
            if self.style == "epoch":
                return float(self.text)
            if self.style.startswith("glog"):
                return _dated(_GLOG, self.text, reference)
            if self.style == "day":
                return _dated(_DAY, self.text, reference)
            if self.style == "syslog":
                return _syslog(self.text, reference)
            if self.style == "us":
                return _us(self.text)
            return _ctime(self.text) if self.style == "ctime" else _iso(self.text)
        except (ValueError, OverflowError, KeyError, AttributeError):
            return None


def _iso(text: str) -> float:
    year, month, day, hour, minute, second, fraction, zone = _ISO.fullmatch(text).groups()  # type: ignore[union-attr]
    moment = (int(year), int(month), int(day), int(hour), int(minute), int(second))
    part = float(f"0.{fraction}") if fraction else 0.0
    if not zone:
        return _local(moment) + part
    offset = 0
    if zone != "Z":
        offset = int(zone[1:3]) * 3600 + int(zone[-2:]) * 60
        offset = -offset if zone[0] == "-" else offset
    return timegm((*moment, 0, 0, 0)) - offset + part


def _dated(form: re.Pattern[str], text: str, reference: float) -> float:
    month, day, hour, minute, second, fraction = form.fullmatch(text).groups()  # type: ignore[union-attr]
    moment = (int(month), int(day), int(hour), int(minute), int(second))
    return _without_year(moment, reference) + float(f"0.{fraction or 0}")


def _us(text: str) -> float:
    month, day, year, hour, minute, second = _US.fullmatch(text).groups()  # type: ignore[union-attr]
    return _local((int(year), int(month), int(day), int(hour), int(minute), int(second)))


def _syslog(text: str, reference: float) -> float:
    month, day, hour, minute, second = _SYSLOG.fullmatch(text).groups()  # type: ignore[union-attr]
    return _without_year((_month(month), int(day), int(hour), int(minute), int(second)), reference)


def _ctime(text: str) -> float:
    month, day, hour, minute, second, year = _CTIME.fullmatch(text).groups()  # type: ignore[union-attr]
    return _local((int(year), _month(month), int(day), int(hour), int(minute), int(second)))


def _month(name: str) -> int:
    return _MONTHS.index(name) // 4 + 1


def _without_year(moment: tuple[int, int, int, int, int], reference: float) -> float:
    year = time.localtime(reference).tm_year
    this_year = _local((year, *moment))
    return this_year if this_year <= reference + _DAY_SECONDS else _local((year - 1, *moment))


def _local(moment: tuple[int, int, int, int, int, int]) -> float:
    year, month, day, hour, minute, second = moment
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 62):
        raise ValueError("no such time")
    return time.mktime((year, month, day, hour, minute, second, 0, 0, -1))
