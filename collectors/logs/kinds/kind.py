"""How an event kind of a log is declared."""

from __future__ import annotations

from aidiag.collectors.signal import EventKind
from aidiag.collectors.subject import SubjectKind

ORIGIN_FIELDS = ("message", "severity", "phase", "host", "pid", "local_rank", "cuda_device")

OWN_FIELDS: dict[str, frozenset[str]] = {}
"""By kind: the fields that only the message itself can fill. A `pid` among them is that of whom the message is about."""

COMMUNICATOR = "comm comm_rank comm_ranks comm_id pci_bus_id"
"""The fields with which NCCL tells which communicator it speaks of."""


def kind(scope: SubjectKind, name: str, help: str, fields: str) -> EventKind:
    """The declaration of a kind; `fields` are names with blanks between them."""
    OWN_FIELDS[name] = frozenset(fields.split())
    return EventKind(name, scope, help, tuple(dict.fromkeys((*fields.split(), *ORIGIN_FIELDS))))
