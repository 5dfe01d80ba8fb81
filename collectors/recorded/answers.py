"""The answers of a recorded node that no file holds: `node.json` and `nvml.json`.

An answer is a value, or `{"error": NAME}` (an errno or EAI_ name), or `{"hang": true}`, or `{"value": V, "seconds": S}`.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from aidiag.collectors.errors import CollectorError, HungError, UnavailableError
from aidiag.collectors.recorded.tree import RecordedTree

Answer = TypeVar("Answer")

PART_LIMIT_BYTES = 64 << 20
HUNG_SECONDS = 2.0
"""How long a call that does not return is said to have been waited for: as long as a helper would wait."""


class RecordedAnswers:
    """The calls of a recording, by key. `elapsed` is the time that the answers took which this thread has had."""

    def __init__(self, tree: RecordedTree) -> None:
        self._tree = tree
        self._parts: dict[str, Mapping[str, Any]] = {}
        self._spent = threading.local()

    def elapsed(self) -> float:
        """Seconds that the answers of this thread took when they were recorded."""
        return float(getattr(self._spent, "seconds", 0.0))

    def part(self, name: str) -> Mapping[str, Any]:
        """A whole JSON file. Raises OSError where there is none, CollectorError where it is no JSON object."""
        if name not in self._parts:
            data = self._tree.read(f"/{name}", PART_LIMIT_BYTES)
            try:
                part = json.loads(data)
            except (ValueError, RecursionError) as error:
                raise CollectorError(f"{name} of the recording is no JSON: {error}") from None
            if not isinstance(part, dict):
                raise CollectorError(f"{name} of the recording is no JSON object")
            self._parts[name] = part
        return self._parts[name]

    def take(self, call: str, shape: Callable[[Any], Answer], *keys: str) -> Answer:
        """The answer at `keys` of node.json, brought into shape.

        `call` is how messages write it. Raises OSError (ENODATA: not recorded, EBADMSG: not of this shape) or
        HungError as recorded.
        """
        found: Any = self.part("node.json")
        for key in keys:
            found = self._open(found, call)
            if not isinstance(found, dict) or key not in found:
                raise OSError(errno.ENODATA, "not in the recording", call)
            found = found[key]
        found = self._open(found, call)
        try:
            return shape(found)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            message = f"the recording holds something else here ({type(error).__name__}: {error})"
            raise OSError(errno.EBADMSG, message, call) from None

    def _open(self, answer: Any, call: str) -> Any:
        """What an answer holds: its value, or the error that it stands for."""
        if not isinstance(answer, dict):
            return answer
        if answer.get("hang") is True and len(answer) == 1:
            raise HungError(f"{call} has not returned for {HUNG_SECONDS:.1f} s", seconds=HUNG_SECONDS)
        if set(answer) == {"value", "seconds"} and isinstance(answer["seconds"], int | float):
            self._spent.seconds = self.elapsed() + answer["seconds"]
            return answer["value"]
        if set(answer) == {"error"}:
            raise named_error(str(answer["error"]), call)
        return answer


def named_error(name: str, call: str) -> Exception:
    """The exception that an errno, EAI_ or NVML_ERROR_ name stands for."""
    number = getattr(errno, name, None)
    if isinstance(number, int):
        return OSError(number, os.strerror(number), call)
    if name.startswith("EAI_"):
        import socket  # only those who resolve names need it

        return socket.gaierror(getattr(socket, name, socket.EAI_FAIL), f"{call}: {name}")
    if name == "NVML_ERROR_LIBRARY_NOT_FOUND":
        return UnavailableError(f"{call}: {name}")
    return CollectorError(f"{call}: {name}")
