"""Data loaders: how long the trainer waits for each, how many batches lay ready, and who its workers are."""

from __future__ import annotations

import weakref
from _thread import get_ident
from typing import TYPE_CHECKING, Any, Optional

from .. import layout
from ..timeline import FLUSH_NS
from .hook import Hook
from .loader_table import QUEUE_UNKNOWN, LoaderEntry, LoaderTable

if TYPE_CHECKING:
    from ..timeline import Timeline
    from .evaluation import EvaluationWatch


class LoaderHook(Hook):
    """Times `next()` on loaders, as the training thread sees it. Batches taken by other threads are theirs to wait for.

    The wait is stamped before it begins, so that a `next()` that never returns can be seen.
    """

    name = "loader"

    def __init__(self, timeline: Timeline, table: LoaderTable, evaluation: EvaluationWatch) -> None:
        super().__init__(timeline)
        self.table = table
        self._evaluation = evaluation
        self._depth = 0
        self._began = 0
        self.feeding: Optional[LoaderEntry] = None
        """The loader that feeds the training."""
        self.last: Optional[LoaderEntry] = None
        """The loader of the last batch, until a forward or an optimizer shows what it was for."""
        self.last_wait = 0
        self.last_written = 0

    def iteration_begins(self, loader: Any) -> Optional[LoaderEntry]:
        """An iterator is about to be made: workers start, which takes time. None when this call is not to be timed."""
        try:
            if self._depth or get_ident() != self.timeline.thread:
                return None
            entry = self.table.entry(loader)
            entry.iterations += 1
            self._wait_begins(entry)
            return entry
        except Exception as error:
            self.failed(error)
            return None

    def iteration_began(self, entry: LoaderEntry, iterator: Any) -> None:
        """The iterator is there, or None where making it raised."""
        try:
            self._wait_ended(entry)
            if iterator is not None:
                describe_iterator(entry, iterator)
                self.table.write(entry)
        except Exception as error:
            self.failed(error)

    def batch_begins(self, iterator: Any) -> Optional[LoaderEntry]:
        """A batch is about to be taken. None when this call is not to be timed."""
        try:
            if self._depth or get_ident() != self.timeline.thread:
                return None
            try:
                entry: LoaderEntry = iterator._aidiag_loader
            except AttributeError:
                entry = self._meet(iterator)
            if entry.ready is not None:
                entry.queue = entry.ready(iterator)
            self._wait_begins(entry)
            return entry
        except Exception as error:
            self.failed(error)
            return None

    def batch_ended(self, entry: LoaderEntry, taken: bool) -> None:
        """A batch was taken, or there was none: the loader is at its end, or it raised."""
        try:
            timeline = self.timeline
            waited = self._wait_ended(entry)
            if taken:
                entry.batches += 1
                if timeline.base != layout.EVALUATION and entry.role != layout.ROLE_EVALUATION:
                    timeline.batches += 1
                    timeline.fed = True
                    self.last = entry
                    self.last_wait = waited
                    self.last_written = timeline.written
                elif entry.role == layout.ROLE_UNKNOWN:
                    entry.set_role(layout.ROLE_EVALUATION)
            if timeline.weighs:
                timeline.weigh(timeline.entered)
        except Exception as error:
            self.failed(error)

    def was_training(self) -> None:
        """The last batch went into a training step."""
        entry = self.last
        if entry is not None:
            self.last = None
            self.feeding = entry
            if entry.role != layout.ROLE_TRAINING:
                entry.set_role(layout.ROLE_TRAINING)

    def own_work_done(self) -> None:
        """The trainer's own work of a step is done, and it begins to wait for its peers: has its loader caught up?

        Where a peer is late, this trainer's loader has time to fill its queue, so that its wait says nothing of its
        speed. But a loader with half of its workers still busy now would have made the trainer wait, peers or not.
        """
        entry = self.feeding
        if entry is None or entry.ready is None or not self.live:
            return
        try:
            iterator = entry.iterator()
            if iterator is not None:
                busy = iterator._tasks_outstanding - entry.ready(iterator) + _early(iterator)
                if 2 * busy >= entry.workers:
                    entry.behind += 1
        except Exception as error:
            self.failed(error)

    def was_evaluation(self) -> None:
        """The last batch went into a forward without gradients: what was charged to the step is taken back."""
        entry = self.last
        if entry is None:
            return
        self.last = None
        if entry.role != layout.ROLE_UNKNOWN:
            return
        entry.set_role(layout.ROLE_EVALUATION)
        timeline = self.timeline
        if timeline.written == self.last_written:  # no reader has seen it yet: totals must not go back
            timeline.spent[layout.DATA_WAIT] -= self.last_wait
            timeline.spent[layout.EVALUATION] += self.last_wait
            entry.wait -= self.last_wait
            entry.evaluation_wait += self.last_wait
            timeline.batches -= 1

    def _meet(self, iterator: Any) -> LoaderEntry:
        """An iterator whose loader was never seen: a loader class with an `__iter__` of its own."""
        entry = self.table.entry(iterator)
        entry.iterations += 1
        describe_iterator(entry, iterator)
        return entry

    def _wait_begins(self, entry: LoaderEntry) -> None:
        timeline = self.timeline
        now = timeline.clock()
        if not timeline.running:
            timeline.start(now)
        self._evaluation.look(now)
        if now - timeline.written > FLUSH_NS:
            timeline.write_state(now)
        if timeline.claimed:
            phase = timeline.base
        else:
            phase = layout.EVALUATION if entry.role == layout.ROLE_EVALUATION else layout.DATA_WAIT
            if timeline.backwards and phase == layout.DATA_WAIT:
                timeline.batch_after_backward(now)
        timeline.enter(phase, now)
        self._depth = 1
        self._began = now
        if timeline.weighs:
            timeline.weigh(now)

    def _wait_ended(self, entry: LoaderEntry) -> int:
        self._depth = 0
        timeline = self.timeline
        now = timeline.clock()
        waited = now - self._began
        if timeline.phase == layout.DATA_WAIT:
            entry.wait += waited
        else:
            entry.evaluation_wait += waited
        timeline.leave(now)
        if not entry.dirty:
            self.table.touch(entry)
        return waited


def describe_iterator(entry: LoaderEntry, iterator: Any) -> None:
    """Take the facts of an iterator of torch's DataLoader: its workers, and how its ready batches are counted."""
    workers = getattr(iterator, "_workers", ())
    pids = tuple(worker.pid for worker in workers if worker.pid)
    entry.describe(getattr(iterator, "_num_workers", len(pids)), pids)
    entry.queue = QUEUE_UNKNOWN
    entry.ready = None
    entry.iterator = lambda: None
    if pids and hasattr(iterator, "_tasks_outstanding") and hasattr(iterator, "_task_info"):
        data_queue = getattr(iterator, "_data_queue", None)
        if hasattr(data_queue, "queue"):
            entry.ready = _ready_pinned
        elif hasattr(data_queue, "qsize"):
            entry.ready = _ready_from_workers
    try:
        iterator._aidiag_loader = entry
        if entry.ready is not None:
            entry.iterator = weakref.ref(iterator)
    except (AttributeError, TypeError):
        pass  # an iterator with slots is met anew each time


def _ready_pinned(iterator: Any) -> int:
    """What the pinning thread has put into its deque, looked at without its lock, and what came before its turn."""
    return len(iterator._data_queue.queue) + _early(iterator)


def _ready_from_workers(iterator: Any) -> int:
    """What the workers have put into their queue, by its semaphore, and what came before its turn."""
    size: int = iterator._data_queue.qsize()
    return size + _early(iterator)


def _early(iterator: Any) -> int:
    """Batches that came before their turn: tasks that are known and not outstanding any more."""
    early: int = len(iterator._task_info) - iterator._tasks_outstanding
    return max(early, 0)
