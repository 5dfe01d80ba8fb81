"""Network interfaces: state, MTU, speed, errors, and which of them the job uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from aidiag.collectors import subject
from aidiag.collectors.collector import Collector, Context
from aidiag.collectors.counter_files import CounterFile, readings
from aidiag.collectors.job_settings import job_settings
from aidiag.collectors.network.interface_choice import Choice, choices
from aidiag.collectors.network.interfaces import Interface, read_interfaces
from aidiag.collectors.network.master_route import MasterRoute
from aidiag.collectors.node import printable
from aidiag.collectors.observation import Absent, Observation, Sample, labels
from aidiag.collectors.signal import EventKind, Signal
from aidiag.collectors.subject import Subject

SIGNALS: tuple[Signal, ...] = (
    Signal("net_info", "info", "", "nic", "What an interface is", labels=("driver", "kind", "address")),
    Signal("net_up", "gauge", "count", "nic", "1 while the interface is up with carrier"),
    Signal(
        "net_operstate",
        "text",
        "",
        "nic",
        "unknown, notpresent, down, lowerlayerdown, testing, dormant or up (RFC 2863)",
    ),
    Signal("net_mtu_bytes", "gauge", "bytes", "nic", "MTU of the interface"),
    Signal("net_speed_bytes_per_second", "gauge", "bytes_per_second", "nic", "Link speed"),
    Signal("net_duplex", "text", "", "nic", "full or half"),
    Signal("net_receive_bytes_total", "counter", "bytes", "nic", "Bytes received"),
    Signal("net_transmit_bytes_total", "counter", "bytes", "nic", "Bytes sent"),
    Signal("net_receive_errors_total", "counter", "count", "nic", "Receive errors"),
    Signal("net_transmit_errors_total", "counter", "count", "nic", "Transmit errors"),
    Signal("net_receive_dropped_total", "counter", "count", "nic", "Packets dropped on receive"),
    Signal("net_transmit_dropped_total", "counter", "count", "nic", "Packets dropped on send"),
    Signal("net_carrier_changes_total", "counter", "count", "nic", "Times that the carrier came or went"),
    Signal(
        "net_used_by_job",
        "gauge",
        "count",
        "nic",
        "1 when the job's settings take the interface for TCP, or, where they name none, when it leads to the master",
    ),
    Signal(
        "net_chosen_interface_missing",
        "gauge",
        "count",
        "host",
        "1 when a setting names an interface that is not there, 0 when all are",
        labels=("variable",),
    ),
    Signal(
        "net_setting_info",
        "info",
        "",
        "host",
        "A setting that chooses interfaces, and those that it takes here",
        labels=("variable", "value", "interfaces"),
    ),
)

EVENTS: tuple[EventKind, ...] = ()

OPERSTATES = frozenset({"unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up"})
MEGABIT_BYTES = 125_000
INTERFACES_LIMIT = 64
"""Interfaces told of, at most: a host of many containers has hundreds."""
COUNTERS = (
    CounterFile("statistics/rx_bytes", "net_receive_bytes_total"),
    CounterFile("statistics/tx_bytes", "net_transmit_bytes_total"),
    CounterFile("statistics/rx_errors", "net_receive_errors_total"),
    CounterFile("statistics/tx_errors", "net_transmit_errors_total"),
    CounterFile("statistics/rx_dropped", "net_receive_dropped_total"),
    CounterFile("statistics/tx_dropped", "net_transmit_dropped_total"),
    CounterFile("mtu", "net_mtu_bytes"),
)
CARRIER = (CounterFile("carrier_changes", "net_carrier_changes_total"),)


class NetworkCollector(Collector):
    """Network interfaces: state, MTU, speed, errors, and which of them the job uses."""

    name: ClassVar[str] = "network"
    interval_seconds: ClassVar[float] = 5.0
    signals: ClassVar[tuple[Signal, ...]] = SIGNALS
    events: ClassVar[tuple[EventKind, ...]] = EVENTS

    def __init__(self, context: Context) -> None:
        self._node, self._clock = context.node, context.clock
        self._master = MasterRoute(context.node, context.clock)

    def collect(self) -> Iterable[Observation]:
        """Read the interfaces, and what the job chooses among them."""
        now = self._clock.monotonic()
        host = subject.host(self._node.name)
        interfaces = read_interfaces(self._node)
        try:
            settings = job_settings(self._node)
        except OSError as error:
            settings = {}
            yield Absent("net_chosen_interface_missing", host, f"the environment of the job: {error.strerror}")
        chosen = choices(settings, interfaces, self._rdma_devices() if "UCX_NET_DEVICES" in settings else ())
        for choice in chosen:
            yield from _setting(choice, host, now)
        used, reason = self._used(chosen, settings, interfaces)
        if used is None:
            yield Absent("net_used_by_job", host, reason, expected="MASTER_ADDR" in settings)
        for interface in _worth_telling(interfaces, used or frozenset()):
            nic = subject.nic(printable(interface.name), host=self._node.name)
            yield from _state(interface, nic, now)
            yield from readings(COUNTERS, interface.folder, interface.answers, nic, now)
            yield from readings(CARRIER, interface.folder, interface.answers, nic, now, optional=True)
            if used is not None:
                yield Sample("net_used_by_job", nic, float(interface.name in used), now)

    def _used(
        self, chosen: Sequence[Choice], settings: Mapping[str, str], interfaces: Iterable[Interface]
    ) -> tuple[frozenset[str] | None, str]:
        """The interfaces that the job uses, None where nobody knows, and then why."""
        if chosen:
            return frozenset(name for choice in chosen for name in choice.interfaces), ""
        master = settings.get("MASTER_ADDR", "")
        if not master:
            return None, "no setting and no MASTER_ADDR tells which interface the job uses"
        return self._master.interface(master, interfaces)

    def _rdma_devices(self) -> Sequence[str]:
        try:
            return self._node.entries("/sys/class/infiniband")
        except OSError:
            return ()


def _worth_telling(interfaces: Iterable[Interface], used: frozenset[str]) -> list[Interface]:
    """Interfaces that the job uses, real ones, then others that have an address of their own."""

    def rank(interface: Interface) -> int:
        if interface.name in used:
            return 0
        if interface.kind == "physical":
            return 1
        if interface.kind == "loopback" or not interface.address or interface.address.lower().startswith("fe80:"):
            return 3
        return 2

    told = [interface for interface in sorted(interfaces, key=rank) if rank(interface) < 3]
    return told[:INTERFACES_LIMIT]


def _setting(choice: Choice, host: Subject, now: float) -> Iterator[Sample]:
    yield Sample("net_chosen_interface_missing", host, float(choice.missing), now, labels(variable=choice.variable))
    label = labels(
        variable=choice.variable,
        value=printable(choice.value)[:200],
        interfaces=printable(",".join(choice.interfaces))[:200],
    )
    yield Sample("net_setting_info", host, 1.0, now, label)


def _state(interface: Interface, nic: Subject, now: float) -> Iterator[Sample | Absent]:
    label = labels(driver=interface.driver, kind=interface.kind, address=interface.address)
    yield Sample("net_info", nic, 1.0, now, label)
    if interface.up is None:
        yield Absent("net_up", nic, f"{interface.folder}: neither operstate nor carrier tells")
    else:
        yield Sample("net_up", nic, float(interface.up), now)
    state = interface.word("operstate")
    if state in OPERSTATES:
        yield Sample("net_operstate", nic, state, now)
    else:
        yield Absent("net_operstate", nic, f"{interface.folder}/operstate cannot be read")
    speed = interface.word("speed")
    if speed.isdecimal() and 0 < int(speed) < (1 << 32) - 1:  # unknown is -1, of old drivers as an unsigned number
        yield Sample("net_speed_bytes_per_second", nic, float(int(speed) * MEGABIT_BYTES), now)
    else:
        yield Absent("net_speed_bytes_per_second", nic, f"{interface.folder}/speed tells no speed", expected=False)
    if interface.word("duplex") in ("full", "half"):
        yield Sample("net_duplex", nic, interface.word("duplex"), now)
