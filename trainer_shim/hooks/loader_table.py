"""The loaders of a trainer: a bounded table of entries, each with a name that stays the same."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Callable, Optional

from .. import layout

if TYPE_CHECKING:
    from ..timeline import Timeline

QUEUE_UNKNOWN = -1


class LoaderEntry:
    """One loader: the numbers that change with each batch, and the facts that change with each iterator."""

    __slots__ = (
        "batches", "behind", "dataset", "dirty", "evaluation_wait", "facts", "index", "iterations", "iterator", "kind",
        "name", "named", "owner", "queue", "ready", "role", "shape", "wait", "workers",
    )  # fmt: skip

    def __init__(self, index: int, name: str, kind: str, named: bool) -> None:
        self.index = index
        self.name = name
        self.kind = kind
        self.named = named
        self.owner: Callable[[], Optional[Any]] = lambda: None
        self.dataset: Callable[[], Optional[Any]] = lambda: None
        self.shape: tuple[Any, ...] = ()
        self.role = layout.ROLE_UNKNOWN
        self.wait = 0
        self.evaluation_wait = 0
        self.batches = 0
        self.iterations = 0
        self.behind = 0
        """Batches for which the loader had not caught up when the trainer's own work was done."""
        self.iterator: Callable[[], Optional[Any]] = lambda: None
        self.workers = 0
        self.queue = QUEUE_UNKNOWN
        self.ready: Optional[Callable[[Any], int]] = None
        """Counts the batches that lie ready in an iterator."""
        self.dirty = False
        self.facts = b""
        self.describe(0, ())

    def describe(self, workers: int, pids: tuple[int, ...]) -> None:
        """Set the facts; they are packed here and not with each batch."""
        self.workers = workers
        pids = pids[: layout.WORKER_PIDS]
        head = layout.LOADER_FACTS.pack(_cut(self.name), _cut(self.kind), min(workers, 65535), len(pids), self.role)
        self.facts = head + b"".join(layout.PID.pack(pid) for pid in pids)

    def set_role(self, role: int) -> None:
        """Say what the loader is for, once that is known."""
        self.role = role
        place = layout.LOADER_FACTS.size - 1
        self.facts = self.facts[:place] + bytes((role,)) + self.facts[place + 1 :]


def _cut(text: str) -> bytes:
    return text.encode("utf-8", "replace")[: layout.NAME_BYTES]


class LoaderTable:
    """The loaders of a trainer, each with a name that stays the same.

    Names of variables are not to be had, so a loader is called after the class of its dataset, the second one of a
    kind `Name-2`. A loader that is made anew each epoch takes the place of the one that is gone, if it has the same
    dataset (or that is gone, too), workers, batch size and kind of sampler. `name_loader` gives a name of one's own.
    When the table is full, all further ones share its last place.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._entries: list[LoaderEntry] = []
        self._names: dict[int, tuple[Callable[[], Optional[Any]], str]] = {}

    def rename(self, owner: Any, name: str) -> None:
        """Call the loader `owner` by `name`."""
        self._names = {key: kept for key, kept in self._names.items() if kept[0]() is not None}
        self._names[id(owner)] = (_weak(owner), name)
        for entry in self._entries:
            if entry.owner() is owner:
                entry.name = name
                entry.named = True

    def entry(self, owner: Any) -> LoaderEntry:
        """The entry of a loader (or of an iterator whose loader is not known): a known one, or a new one."""
        for entry in self._entries:
            if entry.owner() is owner:
                return entry
        chosen_owner, chosen = self._names.get(id(owner), (_gone, ""))
        name = chosen if chosen_owner() is owner else ""
        dataset = getattr(owner, "dataset", getattr(owner, "_dataset", None))
        shape = _shape(owner)
        entry = self._find(name, dataset, shape) or self._add(name, _kind(owner, dataset))
        entry.owner = _weak(owner)
        entry.dataset = _weak(dataset)
        entry.shape = shape
        return entry

    def _find(self, name: str, dataset: Any, shape: tuple[Any, ...]) -> Optional[LoaderEntry]:
        """The entry that was given this name, or whose loader is gone and was like this one."""
        for entry in self._entries:
            if name:
                if entry.name == name:
                    return entry
            elif not entry.named and entry.owner() is None and entry.shape == shape:
                known = entry.dataset()
                if known is None or known is dataset:
                    return entry
        return None

    def _add(self, name: str, kind: str) -> LoaderEntry:
        if len(self._entries) == layout.LOADERS:
            return self._entries[-1]
        named = bool(name)
        if not named:
            same = sum(entry.kind == kind for entry in self._entries)
            name = f"{kind}-{same + 1}" if same else kind
        entry = LoaderEntry(len(self._entries), name, kind, named)
        self._entries.append(entry)
        self._timeline.loaders = len(self._entries)
        return entry

    def touch(self, entry: LoaderEntry) -> None:
        """Have an entry written with the next state."""
        if not entry.dirty:
            entry.dirty = True
            self._timeline.dirty.append(lambda: self.write(entry))

    def write(self, entry: LoaderEntry) -> None:
        """Write an entry into the record."""
        entry.dirty = False
        counts = layout.LOADER_COUNTS.pack(
            entry.wait, entry.evaluation_wait, entry.batches, entry.iterations, entry.behind, entry.queue
        )
        self._timeline.writer.loader(entry.index, counts + entry.facts)


def _kind(owner: Any, dataset: Any) -> str:
    """The class of a dataset, or of what a subset is a part of; of the loader itself where it has none."""
    while type(dataset).__name__ == "Subset" and hasattr(dataset, "dataset"):
        dataset = dataset.dataset
    return type(owner if dataset is None else dataset).__name__


def _shape(owner: Any) -> tuple[Any, ...]:
    """What tells loaders of one kind apart; an iterator has most of it under names of its own."""
    sampler = getattr(owner, "sampler", None)
    dataset = getattr(owner, "dataset", None)
    return (
        type(owner).__name__,
        type(dataset).__name__,
        getattr(owner, "num_workers", getattr(owner, "_num_workers", None)),
        getattr(owner, "batch_size", None),
        type(sampler).__name__,
    )


def _gone() -> None:
    return None


def _weak(owner: Any) -> Callable[[], Optional[Any]]:
    try:
        return weakref.ref(owner)
    except TypeError:  # no weak references to it: it counts as gone at once, and is told by name or kind
        return _gone
