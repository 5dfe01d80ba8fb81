"""RDMA ports as sysfs shows them: state, rate, MTU, counters, and whether the job uses them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from aidiag.collectors import subject
from aidiag.collectors.collector import Collector, Context
from aidiag.collectors.counter_files import readings
from aidiag.collectors.errors import CollectorError, HungError, UnavailableError
from aidiag.collectors.node import printable
from aidiag.collectors.observation import Absent, Observation, Sample, labels
from aidiag.collectors.rdma import counters
from aidiag.collectors.rdma.choice import PortChoice, port_choice
from aidiag.collectors.rdma.ports import (
    FOLDER,
    PHYS_STATES,
    STATES,
    Gid,
    RdmaPort,
    netdev_of,
    parse_lid,
    parse_rate,
    parse_state,
    read_gids,
    read_ports,
)
from aidiag.collectors.signal import EventKind, Signal, Unit
from aidiag.collectors.subject import Subject

SLOW_AGE_SECONDS = 150.0
"""A reading of slow facts stays fresh until the next but one should have come."""


def _slow(name: str, unit: Unit, text: str, *, labels: tuple[str, ...] = ()) -> Signal:
    return Signal(name, "gauge", unit, "port", text, labels, max_age_seconds=SLOW_AGE_SECONDS)


SIGNALS: tuple[Signal, ...] = (
    Signal(
        "rdma_port_info",
        "info",
        "",
        "port",
        "What a port is",
        labels=("netdev", "link_layer", "board_id", "firmware_version"),
    ),
    Signal("rdma_port_up", "gauge", "count", "port", "1 while the port is ACTIVE and its link is up"),
    Signal("rdma_port_state", "text", "", "port", "DOWN, INIT, ARMED, ACTIVE or ACTIVE_DEFER"),
    Signal(
        "rdma_port_phys_state",
        "text",
        "",
        "port",
        "Sleep, Polling, Disabled, PortConfigurationTraining, LinkUp, LinkErrorRecovery or Phy Test",
    ),
    Signal("rdma_port_speed_bytes_per_second", "gauge", "bytes_per_second", "port", "Rate of the port"),
    Signal("rdma_port_lanes", "gauge", "count", "port", "Lanes that the link has trained"),
    Signal("rdma_port_lid", "gauge", "code", "port", "Local identifier, 0 where no subnet manager has given one"),
    Signal(
        "rdma_port_sm_lid", "gauge", "code", "port", "Local identifier of the subnet manager, 0 where none is known"
    ),
    _slow("rdma_port_gids", "count", "Entries of the GID table in use, by type", labels=("type",)),
    _slow("rdma_port_mtu_bytes", "bytes", "MTU in force"),
    _slow("rdma_port_max_mtu_bytes", "bytes", "Largest MTU that the port can do"),
    Signal(
        "rdma_port_used_by_job",
        "gauge",
        "count",
        "port",
        "1 when the job's settings include the port, 0 when they exclude it",
    ),
    Signal(
        "rdma_call_pending_seconds",
        "gauge",
        "seconds",
        "port",
        "How long a read of the device has not returned, 0 when it answers",
    ),
    *counters.SIGNALS,
)

EVENTS: tuple[EventKind, ...] = ()

SLOW_ROUNDS = 6
"""What hardly changes (GID table, interface, MTU) is read at each sixth collection: once a minute."""
GID_KINDS = ("IB/RoCE v1", "RoCE v2")


@dataclass(slots=True)
class _Slow:
    """What was last read of a port's slow facts, and when."""

    time: float
    gids: list[Gid]
    gids_reason: str
    netdev: str
    mtu: tuple[int, int] | None
    mtu_reason: str


class RdmaCollector(Collector):
    """RDMA ports as sysfs shows them: state, rate, MTU, counters, and whether the job uses them."""

    name: ClassVar[str] = "rdma"
    interval_seconds: ClassVar[float] = 10.0
    signals: ClassVar[tuple[Signal, ...]] = SIGNALS
    events: ClassVar[tuple[EventKind, ...]] = EVENTS

    def __init__(self, context: Context) -> None:
        self._node, self._clock = context.node, context.clock
        self._rounds = 0
        self._slow: dict[tuple[str, int], _Slow] = {}

    def collect(self) -> Iterable[Observation]:
        """Read all ports. Raises UnavailableError where the host has no RDMA stack or no device."""
        devices = self._devices()
        if self._rounds % SLOW_ROUNDS == 0:
            self._slow.clear()
        self._rounds += 1
        choice = port_choice(self._node)
        for device in devices:
            now = self._clock.monotonic()
            try:
                ports = read_ports(self._node, device)
            except HungError as error:
                yield from self._hung(device, error, now)
                continue
            except OSError as error:
                gone = subject.port(printable(device), 1, host=self._node.name)
                yield Absent("rdma_port_state", gone, f"{FOLDER}/{device}: {error.strerror}")
                continue
            for port in ports:
                yield from self._port(port, choice, now)

    def _devices(self) -> list[str]:
        try:
            devices = list(self._node.entries(FOLDER))
        except FileNotFoundError:
            if not self._node.exists("/sys/class"):
                raise CollectorError("/sys/class cannot be read, so nobody knows whether there is RDMA") from None
            raise UnavailableError(
                f"there is no RDMA stack on this host ({FOLDER} is not there)",
                "where there should be one: load the driver of the adapter (mlx5_ib, irdma, efa)",
            ) from None
        if not devices:
            raise UnavailableError(
                "the RDMA stack is loaded, but there is no device",
                "where there should be one: see lspci, and the kernel log of the adapter's driver",
            )
        return devices

    def _port(self, port: RdmaPort, choice: PortChoice, now: float) -> Iterator[Observation]:
        there = subject.port(printable(port.device), port.number, host=self._node.name)
        yield Sample("rdma_call_pending_seconds", there, 0.0, now)
        slow = self._slow_facts(port)
        label = labels(
            netdev=printable(slow.netdev),
            link_layer=printable(port.word("link_layer"))[:64],
            board_id=printable(port.device_word("board_id"))[:64],
            firmware_version=printable(port.device_word("fw_ver"))[:64],
        )
        yield Sample("rdma_port_info", there, 1.0, now, label)
        yield from _link(port, there, now)
        kinds = Counter(gid.kind for gid in slow.gids)
        if slow.gids_reason:
            yield Absent("rdma_port_gids", there, slow.gids_reason)
        for kind in GID_KINDS if not slow.gids_reason else ():
            yield Sample("rdma_port_gids", there, float(kinds[kind]), slow.time, labels(type=kind))
        if slow.mtu:
            yield Sample("rdma_port_mtu_bytes", there, float(slow.mtu[0]), slow.time)
            yield Sample("rdma_port_max_mtu_bytes", there, float(slow.mtu[1]), slow.time)
        else:
            for signal in ("rdma_port_mtu_bytes", "rdma_port_max_mtu_bytes"):
                yield Absent(signal, there, slow.mtu_reason, expected=not port.virtual)
        used = choice.uses(port.device, port.number)
        if used is None:
            yield Absent("rdma_port_used_by_job", there, choice.reason, expected=False)
        else:
            yield Sample("rdma_port_used_by_job", there, float(used), now)
        yield from _counters(port, there, now)

    def _slow_facts(self, port: RdmaPort) -> _Slow:
        key = (port.device, port.number)
        if key not in self._slow:
            self._slow[key] = self._read_slow_facts(port)
        return self._slow[key]

    def _read_slow_facts(self, port: RdmaPort) -> _Slow:
        now = self._clock.monotonic()
        try:
            gids, why = read_gids(self._node, port.device, port.number), ""
        except (OSError, CollectorError) as error:
            gids, why = [], f"the GID table of {port.device}: {error}"
        try:
            netdev = netdev_of(self._node, port.device, port.number, gids)
        except CollectorError:
            netdev = ""
        try:
            verbs = self._node.rdma_port(port.device, port.number)
        except OSError as error:
            return _Slow(
                now, gids, why, netdev, None, f"ibv_query_port({port.device}, {port.number}): {error.strerror}"
            )
        except CollectorError as error:
            return _Slow(now, gids, why, netdev, None, error.reason)
        return _Slow(now, gids, why, netdev, (verbs.active_mtu_bytes, verbs.maximum_mtu_bytes), "")

    def _hung(self, device: str, error: HungError, now: float) -> Iterator[Observation]:
        """A device that does not answer: the ports that it had, else its first."""
        numbers = [number for name, number in self._slow if name == device] or [1]
        for number in numbers:
            there = subject.port(printable(device), number, host=self._node.name)
            yield Sample("rdma_call_pending_seconds", there, max(error.seconds, 0.001), now)  # 0 means that it answers
            for signal in SIGNALS:
                if signal.name != "rdma_call_pending_seconds":
                    yield Absent(signal.name, there, error.reason)


def _link(port: RdmaPort, there: Subject, now: float) -> Iterator[Sample | Absent]:
    """State, physical state, rate, lanes, identifiers."""
    state = parse_state(port.word("state"), STATES)
    phys_state = parse_state(port.word("phys_state"), PHYS_STATES)
    for signal, word, file in (
        ("rdma_port_state", state, "state"),
        ("rdma_port_phys_state", phys_state, "phys_state"),
    ):
        if word:
            yield Sample(signal, there, word, now)
        else:
            yield Absent(signal, there, f"{port.folder}/{file} reads {port.word(file)[:40]!r}")
    if state and phys_state:
        yield Sample("rdma_port_up", there, float(state == "ACTIVE" and phys_state == "LinkUp"), now)
    else:
        yield Absent("rdma_port_up", there, f"{port.folder}: state or phys_state cannot be read")
    rate = parse_rate(port.word("rate"))
    if rate:
        yield Sample("rdma_port_speed_bytes_per_second", there, rate[0], now)
        if rate[1]:
            yield Sample("rdma_port_lanes", there, float(rate[1]), now)
    else:
        reason = f"{port.folder}/rate reads {port.word('rate')[:40]!r}"
        yield Absent("rdma_port_speed_bytes_per_second", there, reason)
    if port.word("link_layer") == "InfiniBand":
        for signal, file in (("rdma_port_lid", "lid"), ("rdma_port_sm_lid", "sm_lid")):
            lid = parse_lid(port.word(file))
            if lid is None:
                yield Absent(signal, there, f"{port.folder}/{file} reads {port.word(file)[:40]!r}")
            else:
                yield Sample(signal, there, float(lid), now)


def _counters(port: RdmaPort, there: Subject, now: float) -> Iterator[Sample | Absent]:
    """Virtual functions and EFA have no classic counters, and nobody should miss them there."""
    hardware: Mapping[str, bytes | OSError] = port.answers
    efa = not port.counters and "tx_bytes" in port.hw_counters
    if efa:
        yield from readings(counters.EFA_FILES, f"{port.folder}/hw_counters", hardware, there, now)
    else:
        expected = not port.virtual
        yield from readings(
            counters.CLASSIC_FILES, f"{port.folder}/counters", port.answers, there, now, expected=expected
        )
    yield from readings(counters.HARDWARE_FILES, f"{port.folder}/hw_counters", hardware, there, now, optional=True)
