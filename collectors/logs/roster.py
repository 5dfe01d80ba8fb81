"""What the lines of many processes say together about who was started and where they were to meet.

One line rarely shows that a job was started wrongly: two processes that both call themselves rank 1, a rank beyond the world size,
launchers that each made up their own rendezvous id. The roster sees every event of an incident, in the order of the logs, and
tells such contradictions as events, each with the line that completed it as its evidence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

from aidiag.collectors.observation import Event, FieldValue
from aidiag.collectors.subject import Subject

RANKS_KEPT = 1 << 16
TOLD_KEPT = 4_096
NEIGHBOUR_LINES = 25
"""Two announcements of one rank belong to one start when no more lines lie between them; a restart prints more."""
DEVICE_TABLE_LINES = 6
NEIGHBOUR_SECONDS = 120.0
PRESENT_PART = 0.7
FEWEST_PRESENT = 3
"""A communicator that waits for a few ranks is told when so many of its ranks are seen to wait; fewer may be an excerpt."""

OWN_FAILURES = frozenset({"process_crashed", "python_exception", "error_printed"})
FOLLOWERS = frozenset(
    {
        "peer_connection_closed",
        "nccl_error",
        "collective_timeout",
        "process_group_aborted",
        "peer_wait_timeout",
        "rdma_completion_error",
    }
)
"""What ranks print that lost a peer or wait for one in vain."""
ENDINGS = frozenset({"worker_failed", "worker_signalled", "task_failed"})
SHORTLY_SECONDS = 600.0
_OF_NETWORK = re.compile(
    r"NCCL|nccl|[Cc]onnection (?:closed|reset|refused)|Broken pipe|[Tt]im(?:ed |e)out|[Gg]loo|DistBackend|DistNetwork|DistStore"
    r"|Horovod|process group|ChildFailed|SignalException|Rendezvous|KeyboardInterrupt|exit(?:ed| ?code)|terminated|Warning"
)

OF_JOB = frozenset({"rank-announced", "nccl-tests-device"})
"""The messages in which a process tells its rank in the whole job, and not in some group of it."""

_HOST_LABEL = re.compile(r"(?:\[([A-Za-z][\w.-]{0,200})\]|([A-Za-z](?=[\w.-]{0,62}[\d.-])[\w.-]{0,62}):) ")
_LOOPBACK = re.compile(r"(?:localhost(?:\.localdomain)?|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[?::1\]?)(?::\d{1,5})?")
_ADDRESS = re.compile(r"[\d.]+|.*:.*:.*")


@dataclass(slots=True)
class _Said:
    """The values that were said for one name, each with the event that said it first."""

    values: dict[str, Event] = field(default_factory=dict)

    def add(self, value: str, event: Event) -> None:
        if value and len(self.values) < TOLD_KEPT:
            self.values.setdefault(value, event)

    def number(self) -> int | None:
        """The one number that was said, None where there are none or several."""
        numbers = {int(value) for value in self.values if value.isdigit()}
        return numbers.pop() if len(numbers) == 1 else None

    def last(self) -> Event:
        return next(reversed(self.values.values()))


@dataclass(slots=True)
class Roster:
    """Sees events; `see` gives an event and what it completes, `close` what only the end of all logs shows."""

    _announced: dict[int, Event] = field(default_factory=dict)
    _twice: dict[int, Event] = field(default_factory=dict)
    _present: set[int] = field(default_factory=set)
    _world: _Said = field(default_factory=_Said)
    _options: dict[str, _Said] = field(default_factory=dict)
    _settings: dict[str, _Said] = field(default_factory=dict)
    _by_line: dict[tuple[str, int | None], dict[str, str]] = field(default_factory=dict)
    _node_ranks: dict[tuple[str, str], Event] = field(default_factory=dict)
    _run_ids: _Said = field(default_factory=_Said)
    _hosting: _Said = field(default_factory=_Said)
    _unreached: _Said = field(default_factory=_Said)
    _waited: list[Event] = field(default_factory=list)
    _endpoints: _Said = field(default_factory=_Said)
    _rank_of: dict[tuple[object, object], Subject] = field(default_factory=dict)
    _starting: dict[int, dict[int, Event]] = field(default_factory=dict)
    _failed: Event | None = None
    _failures: list[Event] = field(default_factory=list)
    _followers: list[Event] = field(default_factory=list)
    _ready: bool = False
    _restarted: bool = False
    _cancelled: bool = False
    _told: set[str] = field(default_factory=set)

    def see(self, event: Event) -> Iterator[Event]:
        """The event, and the contradiction that it completes."""
        event = self._ordered(self._placed(event))
        yield event
        whose = event.subject.rank if event.subject is not None else None
        if whose is not None and 0 <= whose < RANKS_KEPT and not self._ready:
            self._present.add(whose)
        if event.kind in OWN_FAILURES and len(self._failures) < TOLD_KEPT:
            self._failures.append(event)
        elif event.kind in FOLLOWERS | ENDINGS and len(self._followers) < TOLD_KEPT:
            self._followers.append(event)
        match event.kind:
            case "rank_announced" | "gpu_place":
                yield from self._announce(event)
            case "launch_option":
                self._option(event)
            case "environment_variable":
                value = str(event.fields.get("value", "")).strip("\"',;")
                self._settings.setdefault(str(event.fields.get("name", "")), _Said()).add(value, event)
                yield from self._setting()
            case "run_id_made":
                self._run_ids.add(str(event.fields.get("run_id", "")), event)
            case "store_hosted":
                self._hosting.add(str(event.fields.get("pid", "")), event)
            case "store_waiting":
                yield from self._crowded(event)
            case "worker_group_restarted":
                self._announced.clear()  # what comes now is the next attempt
                self._restarted = True
            case "store_timeout":
                if len(self._waited) < TOLD_KEPT:
                    self._waited.append(event)
                self._failed = event
            case "rendezvous_failed":
                self._failed = event
            case "connect_failed" if event.fields.get("layer") == "store":
                self._unreached.add(f"{event.fields.get('peer')}:{event.fields.get('port')}", event)
                self._failed = event
            case "nccl_init_started":
                size, rank = event.fields.get("comm_ranks"), event.fields.get("comm_rank")
                if (
                    isinstance(size, int)
                    and isinstance(rank, int)
                    and 0 <= rank < size <= RANKS_KEPT
                    and len(self._starting) < 64
                ):
                    self._starting.setdefault(size, {})[rank] = event
            case "nccl_init_completed" | "ranks_registered":
                self._ready = True
                self._announced.clear()

    def _placed(self, event: Event) -> Event:
        """The event of a crash with the rank of its process, where another line told which rank that is."""
        process = (event.fields.get("host"), event.fields.get("pid"))
        if not process[0] or process[1] is None:
            return event
        if event.subject is None and event.kind in ("process_crashed", "worker_failed"):
            return replace(event, subject=self._rank_of.get(process))
        if event.subject is not None and event.subject.rank is not None and len(self._rank_of) < RANKS_KEPT:
            self._rank_of.setdefault(process, event.subject)
        return event

    def _ordered(self, event: Event) -> Event:
        """The event of a task's end with whether the scheduler had ended the job before: what is killed then is a consequence."""
        if event.kind == "job_cancelled":
            self._cancelled = True
        if event.kind != "task_failed":
            return event
        return replace(event, fields={**event.fields, "after_cancel": "yes" if self._cancelled else "no"})

    def close(self) -> Iterator[Event]:
        """What all the logs together show."""
        yield from self._waiting()
        yield from self._same_node()
        if not self._ready:
            yield from self._apart()
            yield from self._not_started()
        yield from self._first()

    # who failed first

    def _first(self) -> Iterator[Event]:
        """The failure of one rank's own that came before anybody lost a peer, and which no other rank shares."""
        read = {event.place for event in self._failures if event.kind == "python_exception"}
        for event in self._failures:
            if event.kind == "error_printed" and event.place in read:
                continue  # the last line of a traceback that was read whole
            who, text = _who(event), _words(event)
            if who is None or _OF_NETWORK.search(text):
                continue
            if any(_who(one) not in (None, who) and _words(one) == text for one in self._failures):
                continue
            before = [one for one in self._followers if one.kind in FOLLOWERS and _before(one, event)]
            after = [one for one in self._followers if _before(event, one) and _who(one) != who]
            if after and not before:
                rank = event.subject.rank if event.subject is not None else None
                fields: dict[str, FieldValue] = {"what": event.kind, "text": text}
                if rank is not None:
                    fields["rank"] = rank
                yield from self._derived("first", "failed_first", event, fields)
            return

    # the number and numbering of ranks

    def _announce(self, event: Event) -> Iterator[Event]:
        rank, world = event.fields.get("rank"), event.fields.get("world_size")
        if not isinstance(rank, int) or not 0 <= rank < RANKS_KEPT:
            return
        endpoint = str(event.fields.get("endpoint", ""))
        if endpoint.startswith("tcp://"):
            self._endpoints.add(endpoint, event)
        of_job = event.fields.get("message") in OF_JOB
        if isinstance(world, int):
            self._world.add(str(world), event)
            if rank >= world and of_job:
                yield from self._conflict("rank-beyond", event, f"rank {rank} of {world}", rank, world, rank + 1)
        before = self._announced.get(rank)
        # Tables of nccl-tests that follow each other, one of each run, have results between them.
        lines = DEVICE_TABLE_LINES if event.kind == "gpu_place" else NEIGHBOUR_LINES
        if before is None or not _near(before, event, lines):
            self._announced[rank] = event
            return
        first_pid, pid = before.fields.get("pid"), event.fields.get("pid")
        if not of_job or before.fields.get("message") not in OF_JOB or (pid is not None and pid == first_pid):
            return
        self._twice[rank] = event
        if pid is not None or len(self._twice) > 1 or (isinstance(world, int) and world > 1):
            detail = f"rank {rank} was started twice"
            yield from self._conflict("rank-twice", event, detail, rank, world if isinstance(world, int) else None)

    def _setting(self) -> Iterator[Event]:
        tasks, each = self._set("SLURM_NTASKS"), self._set("SLURM_NTASKS_PER_NODE")
        if tasks is not None and each is not None and tasks < each:
            detail = f"SLURM_NTASKS={tasks} is less than SLURM_NTASKS_PER_NODE={each}"
            last = self._settings["SLURM_NTASKS_PER_NODE"].last()
            yield from self._conflict("tasks", last, detail, None, each, tasks)

    def _waiting(self) -> Iterator[Event]:
        """Who did not come to the store, and whether anybody had been started for those that are awaited."""
        started = self._started()
        for event in self._waited:
            joined, expected = event.fields.get("joined"), event.fields.get("expected")
            if not isinstance(joined, int) or not isinstance(expected, int):
                continue
            if joined > expected or (started is not None and started == joined < expected):
                detail = f"{joined} processes came, {expected} were expected"
                if started is not None:
                    detail += f", {started} were started"
                yield from self._conflict("started", event, detail, None, expected, joined)
            elif len(self._present) == joined < expected <= RANKS_KEPT:
                absent = [str(rank) for rank in range(expected) if rank not in self._present]
                fields: dict[str, FieldValue] = {"ranks": ", ".join(absent), "joined": joined, "expected": expected}
                yield from self._derived("absent", "ranks_absent", event, fields)

    def _not_started(self) -> Iterator[Event]:
        """The few ranks that did not enter the start-up of a communicator in which all others wait."""
        for size, started in self._starting.items():
            absent = (
                [str(rank) for rank in range(size) if rank not in started]
                if len(started) >= size * PRESENT_PART
                else []
            )
            if absent and len(started) >= FEWEST_PRESENT:
                fields: dict[str, FieldValue] = {"ranks": ", ".join(absent), "joined": len(started), "expected": size}
                fields["barrier"] = "NCCL init"
                yield from self._derived("not-started", "ranks_absent", next(reversed(started.values())), fields)

    def _crowded(self, event: Event) -> Iterator[Event]:
        """More processes came to the first barrier than the job has ranks. Workers that are started again count anew."""
        joined, expected = event.fields.get("joined"), event.fields.get("expected")
        if isinstance(joined, int) and isinstance(expected, int) and joined > expected and not self._restarted:
            detail = f"{joined} processes came, {expected} were expected"
            yield from self._conflict("crowded", event, detail, None, expected, joined)

    def _started(self) -> int | None:
        """How many processes the launcher was told to start, over all nodes."""
        nodes, each = self._told_number("nodes"), self._told_number("processes_per_node")
        if each is not None:
            return each * (nodes or 1)
        return self._told_number("processes") or self._set("WORLD_SIZE")

    def _told_number(self, name: str) -> int | None:
        said = self._options.get(name)
        return said.number() if said else None

    def _same_node(self) -> Iterator[Event]:
        """Two hosts that were both told to be the same node."""
        nodes, of_label = self._told_number("nodes"), dict[str, set[str]]()
        for (label, number), event in self._node_ranks.items():
            of_label.setdefault(number, set()).add(label)
            if len(of_label[number]) > 1 and (nodes or 1) > 1:
                hosts = " and ".join(sorted(of_label[number]))
                yield from self._conflict("same-node", event, f"{hosts} were both started as node {number}", None)

    def _set(self, name: str) -> int | None:
        said = self._settings.get(name)
        return said.number() if said else None

    # where they were to meet

    def _option(self, event: Event) -> None:
        name, value = str(event.fields.get("name", "")), str(event.fields.get("value", "")).strip("\"',;")
        self._options.setdefault(name, _Said()).add(value, event)
        label = _label(event) if name == "node_rank" else ""
        if label and len(self._node_ranks) < TOLD_KEPT:
            self._node_ranks.setdefault((label, value), event)
        if event.place is not None and len(self._by_line) < TOLD_KEPT:
            self._by_line.setdefault((event.place.source, event.place.line), {})[name] = value

    def _apart(self) -> Iterator[Event]:
        failed = self._failed
        nodes = self._told_number("nodes")
        if failed is not None and len(self._run_ids.values) > 1:
            yield from self._meeting("run_id", self._run_ids.last(), "rendezvous ids that launchers made up")
        if failed is not None and len(self._hosting.values) > 1:
            yield from self._meeting("store", self._hosting.last(), "stores, each of its own node")
        endpoints = [
            (value, event)
            for name in ("rendezvous_endpoint", "master_addr")
            for value, event in self._options.get(name, _Said()).values.items()
        ]
        if (
            failed is not None
            and (nodes or 1) > 1
            and endpoints
            and all(_LOOPBACK.fullmatch(one) for one, _ in endpoints)
        ):
            yield from self._meeting("loopback", endpoints[-1][1], "the loopback address, which on each node is itself")
        if failed is not None:
            yield from self._told_apart()
        for name in ("MASTER_PORT", "MASTER_ADDR"):
            said = self._settings.get(name)
            if said and len(said.values) > 1 and _all_near(list(said.values.values())):
                values = [one for one in said.values if not name.endswith("PORT") or one.isdigit()]
                if len(values) > 1:
                    yield from self._meeting(name, said.last(), ", ".join(values[:8]))
        if len(self._endpoints.values) > 1 and _all_near(list(self._endpoints.values.values())):
            yield from self._meeting("endpoint", self._endpoints.last(), ", ".join(list(self._endpoints.values)[:8]))
        yield from self._elsewhere()

    def _told_apart(self) -> Iterator[Event]:
        """Nodes of one job whose launchers were told different meeting places."""
        several = len(self._options["node_rank"].values) > 1 if "node_rank" in self._options else False
        if (self._told_number("nodes") or 1) < 2 and not several:
            return
        for name in ("run_id", "master_port", "rendezvous_endpoint", "master_addr"):
            said = self._options.get(name)
            if said is None or len(said.values) < 2 or not _all_near(list(said.values.values())):
                continue
            lines = [one for one in self._by_line.values() if name in one and "node_rank" in one]
            of_node = {(one["node_rank"], one[name]) for one in lines}
            one_each = len({node for node, _ in of_node}) == len(of_node) > 1
            labels = [_label(event) for event in said.values.values()]
            if one_each or (not lines and (name == "run_id" or (all(labels) and len(set(labels)) == len(labels)))):
                yield from self._meeting(name, said.last(), ", ".join(list(said.values)[:8]))

    def _elsewhere(self) -> Iterator[Event]:
        """Node 0, whose process hosts the store, is not the host that all were sent to."""
        for told in self._by_line.values():
            master = told.get("master_addr", "")
            if told.get("node_rank") != "0" or not master or _LOOPBACK.fullmatch(master) or _ADDRESS.fullmatch(master):
                continue
            event = self._options["master_addr"].values[master]
            for value, one in self._options.get("node_rank", _Said()).values.items():
                label = _label(one)
                if value == "0" and label and label.split(".")[0] != master.split(".")[0] and self._unreached.values:
                    yield from self._meeting("host", event, f"{master}, while node rank 0 is {label}")

    def _meeting(self, what: str, event: Event, values: str) -> Iterator[Event]:
        yield from self._derived(what, "rendezvous_conflict", event, {"what": what, "values": values})

    def _conflict(
        self,
        key: str,
        event: Event,
        detail: str,
        rank: int | None,
        expected: int | None = None,
        found: int | None = None,
    ) -> Iterator[Event]:
        fields: dict[str, FieldValue] = {"detail": detail}
        fields |= {
            name: value
            for name, value in (("rank", rank), ("expected", expected), ("found", found))
            if value is not None
        }
        tasks = self._set("SLURM_NTASKS") or self._told_number("processes")
        if key == "rank-beyond" and tasks and expected is not None and rank is not None and rank < tasks:
            fields["ranks"] = f"{expected}-{tasks - 1}"
        yield from self._derived(f"{key}-{rank}" if key == "rank-beyond" else key, "world_size_conflict", event, fields)

    def _derived(self, key: str, kind: str, event: Event, fields: dict[str, FieldValue]) -> Iterator[Event]:
        if key in self._told or len(self._told) >= TOLD_KEPT:
            return
        self._told.add(key)
        about = event.subject if isinstance(event.subject, Subject) and "rank" in fields else None
        yield Event(kind, about, event.time, fields | {"severity": "error"}, event.unix, event.place, event.order)


def _near(one: Event, other: Event, lines: int = NEIGHBOUR_LINES) -> bool:
    """Whether two lines of one log are neighbours, so that no restart lies between them."""
    if one.place is None or other.place is None or one.place.source != other.place.source:
        return False
    if one.unix is not None and other.unix is not None and abs(other.unix - one.unix) > NEIGHBOUR_SECONDS:
        return False
    if one.place.line is None or other.place.line is None:
        return False
    return 0 < other.place.line - one.place.line <= lines


def _who(event: Event) -> object:
    """Whose event it is: the rank, or the process where only that is known; None where neither is."""
    if event.subject is not None and event.subject.rank is not None:
        return event.subject.rank
    host, pid = event.fields.get("host"), event.fields.get("pid")
    return (host, pid) if host and pid is not None else None


def _words(event: Event) -> str:
    return " ".join(str(event.fields[name]) for name in ("type", "text", "signal") if name in event.fields)[:300]


def _before(one: Event, other: Event) -> bool:
    """Whether one came before the other and not long before: by their times, else by their order in one log."""
    if one.unix is not None and other.unix is not None:
        return 0 <= other.unix - one.unix <= SHORTLY_SECONDS and (one.unix < other.unix or one.order < other.order)
    if one.place is None or other.place is None or one.place.source != other.place.source:
        return False
    return one.order < other.order


def _all_near(events: list[Event]) -> bool:
    return all(_near(one, other) for one, other in pairwise(events))


def _label(event: Event) -> str:
    host = event.fields.get("host")
    if isinstance(host, str) and host:
        return host
    label = _HOST_LABEL.match(event.place.text) if event.place is not None else None
    return (label[1] or label[2]) if label else ""
