"""The kernel log: Xids, OOM kills, network links that go down and up, troubles of network cards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from aidiag.collectors.collector import Collector, Context
from aidiag.collectors.errors import NotPermittedError
from aidiag.collectors.gpu.xids import gpu_at
from aidiag.collectors.kmsg_device import KernelLog
from aidiag.collectors.kmsg_kinds import EVENTS
from aidiag.collectors.kmsg_lines import KernelFact, KernelLines
from aidiag.collectors.observation import Event, Observation, Place
from aidiag.collectors.signal import EventKind, Signal
from aidiag.collectors.subject import Subject, host, nic

SOURCE = "/dev/kmsg"
LINE_LIMIT = 1024

SIGNALS: tuple[Signal, ...] = ()


class KmsgCollector(Collector):
    """The kernel log. The first reading gives what it still holds, with times in the past."""

    name: ClassVar[str] = "kmsg"
    interval_seconds: ClassVar[float] = 2.0
    signals: ClassVar[tuple[Signal, ...]] = SIGNALS
    events: ClassVar[tuple[EventKind, ...]] = EVENTS

    def __init__(self, context: Context, log: KernelLog | None = None) -> None:
        self._node, self._clock = context.node, context.clock
        self._log = log or KernelLog(SOURCE) if context.node.live else None
        self._lines = KernelLines()
        self._last_reading: float | None = None

    def collect(self) -> Iterable[Observation]:
        """The events since the last reading. Raises NotPermittedError where the log may not be read."""
        return list(self._follow(self._log) if self._log else self._replay())

    def close(self) -> None:
        """Read no more."""
        if self._log:
            self._log.close()

    def _follow(self, log: KernelLog) -> Iterator[Event]:
        lines, lost = log.take()
        now = self._clock.monotonic()
        earliest = self._last_reading
        self._last_reading = now
        if lost:
            yield Event("kernel_lines_lost", host(self._node.name), now, {"lines": lost})
        for line in lines:
            fact = self._lines.fact(line.text) if line.from_kernel else None
            if fact:
                # The kernel's clock drifts against CLOCK_MONOTONIC; this line came between two readings.
                time = min(now, line.seconds if earliest is None else max(earliest, line.seconds))
                yield self._event(fact, line.text, time, None, line.sequence)

    def _replay(self) -> Iterator[Event]:
        """The log of a recorded node, at the first reading."""
        if self._last_reading is not None:
            return
        try:
            messages, unix = self._node.kernel_messages(), self._node.time()
        except OSError as error:
            raise NotPermittedError(f"the kernel log of this node cannot be read: {error.strerror}") from error
        self._last_reading = now = self._clock.monotonic()
        for order, message in enumerate(messages):
            fact = self._lines.fact(message.text)
            if fact:
                age = message.age_seconds
                yield self._event(fact, message.text, now - age, unix - age, order)

    def _event(self, fact: KernelFact, text: str, time: float, unix: float | None, order: int) -> Event:
        place = Place(SOURCE, None, text[:LINE_LIMIT])
        return Event(fact.kind, self._subject(fact), time, fact.fields, unix, place, order)

    def _subject(self, fact: KernelFact) -> Subject:
        kind, device = fact.device
        if kind == "gpu":
            return gpu_at(self._node, device)
        if kind == "nic":
            return nic(self._interface(device), host=self._node.name)
        return host(self._node.name)

    def _interface(self, device: str) -> str:
        """The interface of a card that a line names by its PCI address: network, else RDMA device, else the address."""
        if ":" in device:
            for folder in ("net", "infiniband"):
                try:
                    names = self._node.entries(f"/sys/bus/pci/devices/{device}/{folder}")
                except OSError:
                    continue
                if names:
                    return names[0]
        return device
