"""GPUs through NVML, asked in a helper process."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from aidiag.collectors.collector import Collector, Context
from aidiag.collectors.errors import CollectorError, HungError, UnavailableError
from aidiag.collectors.gpu.answers import Answers, NoAnswerError
from aidiag.collectors.gpu.holders import Holders
from aidiag.collectors.gpu.inventory import Inventory
from aidiag.collectors.gpu.nvml import IDENTITY, SYSTEM, WATCHED, NvmlReader, shared_reader
from aidiag.collectors.gpu.readings import bus_of, read_gpu
from aidiag.collectors.gpu.signals import EVENTS, SIGNALS
from aidiag.collectors.gpu.xids import XID
from aidiag.collectors.kmsg_device import can_read
from aidiag.collectors.observation import Event, Observation, Sample
from aidiag.collectors.process.ranks import RankSource, known_ranks
from aidiag.collectors.signal import EventKind, Signal
from aidiag.collectors.subject import Subject, host

SLOW_CALL_SECONDS = 1.0
SLOW_INTERVAL_SECONDS = 30.0
"""After a call that took so long NVML is asked less often: asking may disturb the training."""


class GpuCollector(Collector):
    """GPUs through NVML, asked in a helper process.

    `ranks` tells which processes are the job's; by default the shim's records do. `reader` asks NVML on a live host.
    """

    name: ClassVar[str] = "gpu"
    interval_seconds: ClassVar[float] = 10.0
    signals: ClassVar[tuple[Signal, ...]] = SIGNALS
    events: ClassVar[tuple[EventKind, ...]] = EVENTS

    def __init__(self, context: Context, ranks: RankSource | None = None, reader: NvmlReader | None = None) -> None:
        self._node, self._clock = context.node, context.clock
        self._reader = (reader or shared_reader()) if context.node.live else None
        self._holders = Holders(context, ranks or known_ranks(context))
        self._inventory = Inventory(context.node.name)
        self._here = host(context.node.name)
        self._driver = ""
        self._not_before = float("-inf")
        self._watches_xids = False

    def collect(self) -> Iterator[Observation]:
        """Read all GPUs once; nothing at some turns where NVML is slow.

        Raises UnavailableError where there is no driver, HungError where NVML does not come back, CollectorError
        where it fails as a whole.
        """
        now = self._clock.monotonic()
        if now < self._not_before:
            return
        facts = yield from self._ask(now)
        system = Answers({call: answer for call, answer in facts.items() if call != "gpus"})
        yield from self._driver_change(system, now)
        gpus = facts.get("gpus")
        found = [Answers(gpu) for gpu in gpus if isinstance(gpu, dict)] if isinstance(gpus, list) else []
        placed, missing = self._inventory.place(found)
        yield from self._calls(system, placed, now)
        _raise_problem(system)
        self._holders.begin()
        for subject, answers in placed:
            yield from read_gpu(answers, subject, now)
            yield from self._holders.observe(answers, subject, now)
        for subject in missing:
            yield Sample("gpu_present", subject, 0.0, now)
        if self._reader:
            told = facts.get("nvmlEventSetWait")
            self._watches_xids = isinstance(told, list)
            yield from self._xids(told, placed, now)

    def watched(self) -> Collection[str]:
        """Xids only where NVML is asked for them, since the kernel log cannot be read."""
        return [kind.name for kind in EVENTS if kind != XID or self._watches_xids]

    def close(self) -> None:
        """End the helper."""
        if self._reader:
            self._reader.close()

    def _ask(self, now: float) -> Generator[Observation, None, Mapping[str, Any]]:
        if self._reader is None:
            return self._node.nvml()
        try:
            # Where the kernel log can be read, Xids come from there, with more about them.
            return self._reader.read(xids=not can_read())
        except HungError as error:
            yield Sample("gpu_call_pending_seconds", self._here, error.seconds, now)
            raise

    def _calls(self, system: Answers, placed: Sequence[tuple[Subject, Answers]], now: float) -> Iterator[Observation]:
        """Which calls have not returned, and how long the slowest took."""
        longest, slowest = 0.0, 0.0
        for subject, answers in [(self._here, system), *placed]:
            pending = answers.pending(("nvmlInit", *SYSTEM) if subject == self._here else (*IDENTITY, *WATCHED))
            if pending and subject.kind == "gpu":
                yield Sample("gpu_pending_call", subject, pending[0], now)
            longest = max(longest, pending[1] if pending else 0.0)
            slowest = max(slowest, answers.slowest()[1])
        yield Sample("gpu_call_pending_seconds", self._here, longest, now)
        yield Sample("gpu_call_duration_seconds", self._here, slowest, now)
        if slowest > SLOW_CALL_SECONDS:
            self._not_before = now + SLOW_INTERVAL_SECONDS - self.interval_seconds / 2

    def _driver_change(self, system: Answers, now: float) -> Iterator[Observation]:
        try:
            driver = system.word("nvmlSystemGetDriverVersion")
        except NoAnswerError:
            return
        if self._driver and driver != self._driver:
            self._inventory.clear()
            yield Event("gpu_driver_changed", self._here, now, {"old": self._driver, "new": driver})
        self._driver = driver

    def _xids(self, told: Any, placed: Sequence[tuple[Subject, Answers]], now: float) -> Iterator[Observation]:
        for xid in told if isinstance(told, list) else []:
            if 0 <= xid["index"] < len(placed):
                subject, answers = placed[xid["index"]]
                fields = {"xid": xid["xid"], "pci_bus_id": bus_of(answers), "detail": ""}
                yield Event(XID.name, subject, now, fields)


def _raise_problem(system: Answers) -> None:
    """Raise the error that says why there are no answers about GPUs, if there are none."""
    for call in ("nvmlInit", "nvmlDeviceGetCount"):
        try:
            system.get(call)
        except NoAnswerError as error:
            if error.pending_seconds is not None:
                raise HungError(error.reason, error.remedy, error.pending_seconds) from error
            if system.error(call) == "NVML_ERROR_LIBRARY_NOT_FOUND":
                raise UnavailableError(error.reason, error.remedy) from error
            raise CollectorError(error.reason, error.remedy) from error
