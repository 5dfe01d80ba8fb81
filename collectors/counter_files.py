"""Files of sysfs that hold one number: what they say, or why that is no number."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from aidiag.collectors.observation import Absent, Sample
from aidiag.collectors.subject import Subject

ALL_ONES = (1 << 64) - 1
"""What a 64-bit register of a device that has left the bus reads as."""

_NUMBER = re.compile(rb"[0-9]{1,20}")


@dataclass(frozen=True, slots=True)
class CounterFile:
    """A file, the signal that it feeds, and what one unit of it is in units of the signal."""

    name: str
    signal: str
    factor: int = 1


def parse_count(text: bytes) -> int:
    """The number in a counter's file. Raises ValueError that says what stands there instead, such as `N/A (no PMA)`."""
    word = text.strip(b" \t\r\n\0")
    if not _NUMBER.fullmatch(word):
        raise ValueError(f"it reads {word[:40].decode(errors='backslashreplace')!r}, which is no count")
    number = int(word)
    if number >= ALL_ONES:
        raise ValueError("it reads all ones, as a device does that does not answer")
    return number


def readings(
    files: Iterable[CounterFile],
    folder: str,
    answers: Mapping[str, bytes | OSError],
    subject: Subject,
    time: float,
    *,
    optional: bool = False,
    expected: bool = True,
) -> Iterator[Sample | Absent]:
    """A sample of each counter, or the reason why it has none; one bad file never removes its neighbours.

    `answers` come from Node.read_all. `optional` leaves out files that are not there (drivers differ in what they
    count); `expected` is False where nobody should miss them.
    """
    for file in files:
        path = f"{folder}/{file.name}"
        answer = answers.get(path, FileNotFoundError())
        try:
            if isinstance(answer, OSError):
                raise answer
            yield Sample(file.signal, subject, float(parse_count(answer) * file.factor), time)
        except FileNotFoundError:
            if not optional:
                yield Absent(file.signal, subject, f"there is no {path}", expected=expected)
        except OSError as error:
            yield Absent(file.signal, subject, f"{path}: {error.strerror}", expected=expected)
        except ValueError as error:
            yield Absent(file.signal, subject, f"{path}: {error}", expected=expected)
