"""How NCCL was configured in each process of a job, as its INFO lines say, and in what the processes differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from aidiag.rules.places import ranges

LIKE_OTHERS = ("version", "network", "interface", "nics", "gpudirect", "channels", "cuda_version")
"""What should be the same in all processes of a job."""

VALUES_SHOWN = 8


@dataclass(frozen=True, slots=True)
class NcclLink:
    """The way to one peer, by its rank in the communicator: `P2P/CUMEM/read`, `NET/IB/0/GDRDMA`."""

    peer: int
    transport: str


@dataclass(frozen=True, slots=True)
class NcclProcess:
    """What one process said. Empty or None where it said nothing of it.

    `network` is IB, Socket or a plugin's name; `interface` and `address` are those of the start-up; `nics` are the devices
    that carry data; `gpudirect` is on, off or partly; `settings` are the variables in force.
    """

    host: str = ""
    pid: int | None = None
    rank: int | None = None
    version: str = ""
    cuda_version: str = ""
    network: str = ""
    interface: str = ""
    address: str = ""
    nics: tuple[str, ...] = ()
    gpudirect: str = ""
    channels: int | None = None
    links: tuple[NcclLink, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NcclValue:
    """A value, and the processes that have it, in words."""

    value: str
    who: str


@dataclass(frozen=True, slots=True)
class NcclDifference:
    """Something in which processes of the job differ: a field of NcclProcess, or the name of a variable."""

    what: str
    values: tuple[NcclValue, ...]


@dataclass(frozen=True, slots=True)
class NcclView:
    """The processes in the order of rank, host and pid, and what differs between them."""

    processes: tuple[NcclProcess, ...]
    differences: tuple[NcclDifference, ...] = ()


def view(processes: Iterable[NcclProcess]) -> NcclView | None:
    """The view of some processes, None where there is none."""
    ordered = tuple(sorted(processes, key=_order))
    return NcclView(ordered, tuple(_differences(ordered))) if ordered else None


def joined(views: Iterable[NcclView | None]) -> NcclView | None:
    """One view of those of several reports; what differs is decided anew."""
    return view(_once(views))


def _once(views: Iterable[NcclView | None]) -> list[NcclProcess]:
    found: dict[tuple[str, int | None, int | None], NcclProcess] = {}
    for one in views:
        for process in one.processes if one else ():
            found.setdefault((process.host, process.pid, process.rank), process)
    return list(found.values())


def transports(process: NcclProcess) -> tuple[str, ...]:
    """The kinds of ways to its peers, each once: `P2P/CUMEM`, `NET/IB/GDRDMA`, without numbers of devices."""
    return tuple(dict.fromkeys(_kind(link.transport) for link in process.links))


def _kind(transport: str) -> str:
    parts = transport.split()[0].split("/") if transport.strip() else [""]
    if parts[0] == "NET":
        return "/".join([*parts[:2], *(part for part in parts[3:] if part == "GDRDMA")])
    return "/".join(parts[:2])


def who(processes: Iterable[NcclProcess]) -> str:
    """Processes in words: their ranks where they are known, else their hosts."""
    found = list(processes)
    numbers = sorted({process.rank for process in found if process.rank is not None})
    others = sorted({process.host or "?" for process in found if process.rank is None})
    words = [f"rank{'s' if len(numbers) > 1 else ''} {ranges(numbers)}"] if numbers else []
    return ", ".join([*words, *others[:VALUES_SHOWN], *(["…"] if len(others) > VALUES_SHOWN else [])])


def _order(process: NcclProcess) -> tuple[bool, int, str, int]:
    return (process.rank is None, process.rank or 0, process.host, process.pid or 0)


def _differences(processes: tuple[NcclProcess, ...]) -> Iterator[NcclDifference]:
    for name in LIKE_OTHERS:
        yield from _difference(name, [(process, _text(process, name)) for process in processes])
    spoke = {process.host for process in processes if process.host and process.settings}
    for name in sorted({name for process in processes for name in process.settings}):
        said = [(process, process.settings.get(name, "")) for process in processes]
        have = {process.host for process, value in said if value}
        if "" not in have:
            said = [
                (process, value or ("(not set)" if process.host in spoke - have else "")) for process, value in said
            ]
        yield from _difference(name, said)


def _difference(what: str, said: list[tuple[NcclProcess, str]]) -> Iterator[NcclDifference]:
    by_value: dict[str, list[NcclProcess]] = {}
    for process, value in said:
        if value:
            by_value.setdefault(value, []).append(process)
    if len(by_value) > 1:
        values = sorted(by_value.items(), key=lambda item: (-len(item[1]), item[0]))
        yield NcclDifference(what, tuple(NcclValue(value, who(holders)) for value, holders in values[:VALUES_SHOWN]))


def _text(process: NcclProcess, name: str) -> str:
    value = getattr(process, name)
    if name == "nics":
        return str(len(value)) if value else ""
    return "" if value is None else str(value)
