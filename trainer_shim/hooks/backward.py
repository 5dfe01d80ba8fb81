"""Backward passes: where they begin, where their own work ends, and what is then waited for.

A pre-hook on the graph node that made the root's output tells the beginning. There it queues a callback of the
autograd engine, which runs when the last gradient is there. Gradient reducers (DDP) queue a callback of their own
during the pass, which waits for the collectives that are still under way. Ours stands before it in the queue, and adds
one behind it: between the two lies the communication that the backward pass did not hide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import layout
from .compiling import compiles_backward
from .hook import Hook

if TYPE_CHECKING:
    from ..timeline import Timeline
    from .loaders import LoaderHook

NODES_LIMIT = 4
"""Outputs of one forward that are watched."""
_DEPTH_LIMIT = 2
_ITEMS_LIMIT = 32


class BackwardHook(Hook):
    """One for all roots. Its calls come from whichever thread runs the backward pass, while the trainer's waits."""

    name = "backward"

    def __init__(self, timeline: Timeline, torch: Any, loaders: LoaderHook) -> None:
        super().__init__(timeline)
        self._loaders = loaders
        self.distributed = False
        """Collectives are to be expected at the end of a backward pass."""
        self._tensor = torch.Tensor
        self._engine = torch.autograd.Variable._execution_engine
        self._under_way = False
        self._begins = self.begins  # one object for all graphs

    def watch(self, output: Any) -> None:
        """Watch for the backward pass through the output of a root's forward."""
        self._under_way = False
        if compiles_backward():
            return
        if isinstance(output, self._tensor):
            node = output.grad_fn
            if node is not None:
                node.register_prehook(self._begins)
            return
        for tensor in self._tensors(output):
            tensor.grad_fn.register_prehook(self._begins)

    def _tensors(self, output: Any) -> list[Any]:
        """The first few tensors with a gradient in an output: in sequences, mappings (the loss first), data classes."""
        found: list[Any] = []
        waiting = [(output, 0)]
        for _ in range(_ITEMS_LIMIT):
            if not waiting or len(found) == NODES_LIMIT:
                break
            value, depth = waiting.pop(0)
            if isinstance(value, self._tensor):
                if value.grad_fn is not None:
                    found.append(value)
                    if depth == 0:
                        break
            elif depth <= _DEPTH_LIMIT:
                waiting.extend((part, depth + 1) for part in _parts(value))
        return found

    def begins(self, _gradients: Any) -> None:
        """A backward pass reaches the root's output."""
        if not self.live:
            return
        try:
            if self._under_way:
                return
            timeline = self.timeline
            now = timeline.clock()
            self._engine.queue_callback(self.computed)
            self._under_way = True
            if not timeline.claimed:
                timeline.enter(layout.BACKWARD, now)
            timeline.overhead += timeline.clock() - now
        except Exception as error:
            self.failed(error)

    def computed(self) -> None:
        """All gradients are computed; what the reducers wait for comes next."""
        if not self.live:
            return
        try:
            timeline = self.timeline
            now = timeline.clock()
            if timeline.phase != layout.BACKWARD:
                self._under_way = False
                return
            if self.distributed:
                self._engine.queue_callback(self.reduced)
                self._loaders.own_work_done()
                timeline.enter(layout.COMM, now)
            else:
                self._under_way = False
                timeline.leave(now)
            timeline.overhead += timeline.clock() - now
        except Exception as error:
            self.failed(error)

    def reduced(self) -> None:
        """The reducers are done."""
        self._under_way = False
        if not self.live:
            return
        try:
            timeline = self.timeline
            now = timeline.clock()
            if timeline.phase == layout.COMM:
                timeline.leave(now)
            timeline.overhead += timeline.clock() - now
        except Exception as error:
            self.failed(error)


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        loss = value.get("loss")
        return [loss] if loss is not None else list(value.values())[:_ITEMS_LIMIT]
    if isinstance(value, (tuple, list)):
        return list(value[:_ITEMS_LIMIT])
    return list(getattr(value, "__dict__", {}).values())[:_ITEMS_LIMIT]
