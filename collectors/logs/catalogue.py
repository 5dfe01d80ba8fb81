"""The message catalogue: `messages/`, one file for each program or command, one entry for each message of it.

An entry is a mapping of texts:

| key          | what                                                                                            |
|--------------|-------------------------------------------------------------------------------------------------|
| `id`         | kebab-case, for `aidiag explain`                                                                |
| `component`  | the program that prints it                                                                      |
| `kind`       | the event kind (`kinds/`) that it becomes                                                     |
| `severity`   | `info`, `warning` or `error`                                                                    |
| `pattern`    | one wording a line, in the language of `pattern.py`; where several match, the first entry counts |
| `since`, `until` | first and last version that prints it, empty where open or unknown                           |
| `phase`      | the phase of a rank's start-up that it shows (messages of progress only)                        |
| `adds`       | constant fields of the event, as `name=value` separated by blanks                               |
| `alone`      | `yes` when the message is all that stands on its line, but for prefixes                         |
| `beside`     | `yes` when it says something else about words that another message may hold, and hides none        |
| `repeats`    | the field that alone differs when it comes over and over: told once for all its values           |
| `reads`      | `kernel`: the line from here on goes to the parser of kernel lines (`kmsg_lines.py`)              |
| `opens`      | the block of several lines (`blocks.py`) that it opens                                          |
| `meaning`, `remedy` | for people                                                                               |
| `example`    | real lines, one a line; each must match                                                         |
| `near_miss`  | lines that look alike and must not match                                                        |
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aidiag.collectors.logs import gate, pattern
from aidiag.collectors.logs.kinds import EVENTS
from aidiag.collectors.logs.pattern import Pattern, PatternError

MESSAGES = Path(__file__).with_name("messages")

SOURCES = (
    "torch_memory",
    "cuda_hardware",
    "cuda",
    "nccl_bootstrap",
    "nccl_socket",
    "nccl_ib",
    "nccl_transports",
    "nccl_plugin",
    "torch_collectives",
    "torch_store",
    "elastic",
    "deepspeed",
    "horovod",
    "torch_loader",
    "python",
    "kernel_memory",
    "kernel_gpu",
    "kernel_net",
    "process_ends",
    "slurm_records",
    "launchers",
    "host_cpu",
    "trainers",
    "run_readings",
    "host_network",
    "host_rdma",
    "host_gpu",
    "host_memory",
    "environment",
    "observed",
    "nccl_progress",
    "general",
    "host_commands",
)
"""The files in the order of precedence: where two messages match the same stretch of a line, the first one counts, so
specific stands before general, and errors before progress."""

SEVERITIES = ("info", "warning", "error")

_REQUIRED = ("id", "component", "kind", "severity", "pattern", "meaning", "example", "near_miss")
_OPTIONAL = ("since", "until", "phase", "adds", "reads", "opens", "alone", "beside", "repeats", "remedy")


class CatalogueError(ValueError):
    """A catalogue that cannot be used: `file:line: reason`."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a program. `line` is where its entry starts in the catalogue."""

    id: str
    component: str
    kind: str
    severity: str
    patterns: tuple[Pattern, ...]
    meaning: str
    remedy: str = ""
    since: str = ""
    until: str = ""
    phase: str = ""
    adds: Mapping[str, str] = field(default_factory=dict)
    reads: str = ""
    opens: str = ""
    alone: bool = False
    beside: bool = False
    repeats: str = ""
    examples: tuple[str, ...] = ()
    near_misses: tuple[str, ...] = ()
    line: int = 0


def read_catalogue(folder: Path = MESSAGES, sources: Sequence[str] = SOURCES) -> tuple[Message, ...]:
    """All messages in their order of precedence. Raises CatalogueError, OSError where a file is not there."""
    found: dict[str, tuple[str, Message]] = {}
    for source in sources:
        name = f"{source}.yaml"
        for message in read_messages((folder / name).read_text(encoding="utf-8"), name):
            if message.id in found:
                elsewhere, other = found[message.id]
                raise CatalogueError(f"{name}:{message.line}: {message.id} is in {elsewhere}:{other.line} already")
            found[message.id] = (name, message)
    return tuple(message for _, message in found.values())


def read_messages(text: str, source: str) -> tuple[Message, ...]:
    """The messages of one file, every pattern checked. Raises CatalogueError with `source` and the line."""
    kinds = {kind.name: kind for kind in EVENTS}
    messages: dict[str, Message] = {}
    for entry, lines in _entries(text, source):
        place = f"{source}:{lines['']}"
        missing = [key for key in _REQUIRED if not entry.get(key)]
        if missing:
            raise CatalogueError(f"{place}: the message has no {missing[0]}")
        if entry["severity"] not in SEVERITIES:
            raise CatalogueError(f"{source}:{lines['severity']}: severity is one of {', '.join(SEVERITIES)}")
        if entry["kind"] not in kinds:
            raise CatalogueError(f"{source}:{lines['kind']}: no event kind {entry['kind']} in kinds/")
        if entry["id"] in messages:
            raise CatalogueError(f"{place}: {entry['id']} is in line {messages[entry['id']].line} already")
        pairs = [pair.partition("=") for pair in entry.get("adds", "").split()]
        if not all(sign for _, sign, _ in pairs):
            raise CatalogueError(f"{source}:{lines['adds']}: adds is written as name=value name=value")
        adds = {name: value for name, _, value in pairs}
        patterns = []
        for offset, wording in enumerate(entry["pattern"].splitlines()):
            try:
                patterns.append(_safe(wording))
                fields = pattern.fields(wording)
                names = {field.name for field in fields} | adds.keys()
                if entry.get("repeats") and [field.name for field in fields].count(entry["repeats"]) != 1:
                    raise PatternError(f"the field {entry['repeats']}, which repeats, must come once")
                unknown = names - set(kinds[entry["kind"]].fields)
                if unknown:
                    raise PatternError(f"{entry['kind']} has no field {min(unknown)}")
            except PatternError as error:
                raise CatalogueError(f"{source}:{lines['pattern'] + offset}: {entry['id']}: {error}") from None
        messages[entry["id"]] = Message(
            **{key: entry[key] for key in ("id", "component", "kind", "severity", "meaning")},
            **{key: entry.get(key, "") for key in ("since", "until", "phase", "reads", "opens", "repeats", "remedy")},
            patterns=tuple(patterns),
            adds=adds,
            alone=entry.get("alone") == "yes",
            beside=entry.get("beside") == "yes",
            examples=tuple(entry["example"].splitlines()),
            near_misses=tuple(entry["near_miss"].splitlines()),
            line=lines[""],
        )
    return tuple(messages.values())


def _safe(wording: str) -> Pattern:
    expression = pattern.expression(wording)
    gate.check(expression.encode())
    literals = gate.required_literals(expression.encode())
    return Pattern(wording, expression, tuple(literal.decode() for literal in literals), gate.ordinary(literals))


def _entries(text: str, source: str) -> Iterator[tuple[dict[str, str], dict[str, int]]]:
    """Each mapping of the list, with the line of each value (of the entry itself under '')."""
    import yaml  # not needed, and not paid for, where the catalogue comes from the cache

    try:
        events = iter(list(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))))
    except yaml.YAMLError as error:
        raise CatalogueError(f"{source}: {_one_line(str(error))}") from None
    for type_ in (yaml.StreamStartEvent, yaml.DocumentStartEvent, yaml.SequenceStartEvent):
        event = next(events)
        if not isinstance(event, type_):
            raise CatalogueError(f"{source}:{_line(event)}: a catalogue is one list of messages")
    for event in events:
        if isinstance(event, yaml.SequenceEndEvent):
            return
        if not isinstance(event, yaml.MappingStartEvent):
            raise CatalogueError(f"{source}:{_line(event)}: each message is a mapping")
        entry: dict[str, str] = {}
        lines = {"": _line(event)}
        for key in iter(lambda: next(events), None):
            if isinstance(key, yaml.MappingEndEvent):
                break
            value = next(events)
            place = f"{source}:{_line(key)}"
            if not isinstance(key, yaml.ScalarEvent) or not isinstance(value, yaml.ScalarEvent):
                raise CatalogueError(f"{place}: keys and values of a message are texts")
            if key.value not in _REQUIRED + _OPTIONAL:
                raise CatalogueError(f"{place}: a message has no key {key.value}")
            if key.value in entry:
                raise CatalogueError(f"{place}: {key.value} comes twice")
            entry[key.value] = value.value.rstrip("\n")
            lines[key.value] = _line(value) + (value.style in ("|", ">"))
        yield entry, lines


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
