"""Which GPU is which: known by UUID, shown by index."""

from __future__ import annotations

from collections.abc import Sequence

from aidiag.collectors.gpu.answers import Answers
from aidiag.collectors.gpu.readings import uuid_of
from aidiag.collectors.subject import Subject, gpu


class Inventory:
    """Remembers the GPUs of a host.

    A GPU keeps the index under which it was first seen, also when one before it falls off the bus and NVML counts anew:
    that is the index by which the running job knows it.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._indices: dict[str, int] = {}

    def place(self, gpus: Sequence[Answers]) -> tuple[list[tuple[Subject, Answers]], list[Subject]]:
        """The GPUs that NVML lists, each with its subject, and those that it listed before and does not any more."""
        uuids = [uuid_of(answers) for answers in gpus]
        for index, uuid in enumerate(uuids):
            if uuid and uuid not in self._indices:
                self._forget(index, uuids)
                self._indices[uuid] = index
        placed = [
            (gpu(self._indices.get(uuid, index), host=self._host), answers)
            for index, (uuid, answers) in enumerate(zip(uuids, gpus, strict=True))
        ]
        shown = {subject for subject, _ in placed}
        known = [gpu(index, host=self._host) for index in sorted(self._indices.values())]
        return placed, [subject for subject in known if subject not in shown]

    def clear(self) -> None:
        """Forget all: the driver was loaded anew."""
        self._indices.clear()

    def _forget(self, index: int, uuids: Sequence[str]) -> None:
        """A new GPU takes the index of one that is gone."""
        for uuid in [uuid for uuid, taken in self._indices.items() if taken == index and uuid not in uuids]:
            del self._indices[uuid]
