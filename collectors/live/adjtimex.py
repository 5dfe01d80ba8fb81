"""How well the clock is kept: adjtimex(2) through the C library."""

from __future__ import annotations

import ctypes
import os

from aidiag.collectors.answers import ClockState

STA_NANO = 0x2000


class _Timex(ctypes.Structure):
    """struct timex of <sys/timex.h> up to what is read, and room for the rest."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def read_clock_state() -> ClockState:
    """Ask without changing anything (`modes` is 0). Raises OSError."""
    library = ctypes.CDLL(None, use_errno=True)
    answer = _Timex()
    state = library.adjtimex(ctypes.byref(answer))
    if state < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "adjtimex()")
    unit = 1e-9 if answer.status & STA_NANO else 1e-6
    return ClockState(state, answer.status, answer.offset * unit, answer.maxerror * 1e-6, answer.esterror * 1e-6)
