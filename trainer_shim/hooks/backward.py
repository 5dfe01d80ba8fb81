"""Backward passes: where they begin, where their own work ends, and what is then waited for.

`torch.autograd.backward` tells beginning and end; all that trainers usually call leads there. A trainer that goes
around it (pipeline engines that call the autograd engine themselves) is noticed by backward passes that do not come,
and watched through its graphs: a pre-hook on the node that made a root's output tells the beginning, and an engine
callback that is queued there tells the end.

Within a pass, reducers (DDP) queue an engine callback that waits for the collectives that are still under way. A
callback of ours that is queued before it runs when the last gradient is there: from then on the pass only communicates.
"""

from __future__ import annotations

from _thread import get_ident
from typing import TYPE_CHECKING, Any

from .. import layout
from .compiling import compiles_backward
from .hook import Hook

if TYPE_CHECKING:
    from ..timeline import Timeline
    from .loaders import LoaderHook

MISSED_STEPS = 3
"""Steps with a forward and without a backward pass after which graphs are watched."""
NODES_LIMIT = 4
"""Outputs of one forward that are watched."""
_DEPTH_LIMIT = 2
_ITEMS_LIMIT = 32


class BackwardHook(Hook):
    """One for all roots. Calls from within a pass come from whichever thread runs it, while the trainer's waits."""

    name = "backward"

    def __init__(self, timeline: Timeline, torch: Any, loaders: LoaderHook) -> None:
        super().__init__(timeline)
        self._loaders = loaders
        self.distributed = False
        """Collectives are to be expected at the end of a backward pass."""
        self._tensor = torch.Tensor
        self._engine = torch.autograd.Variable._execution_engine
        self._depth = 0
        self.awaited = False
        """A forward with gradients was seen, and no backward pass since."""
        self._missed = 0
        self._by_graph = False
        self._queued = False
        self._enters = self.enters  # one object for all graphs

    # the call

    def begins(self) -> bool:
        """torch.autograd.backward is called; False when the call is not to be charged."""
        try:
            timeline = self.timeline
            if self._depth or get_ident() != timeline.thread:
                return False
            now = timeline.clock()
            self.awaited = self._queued = False
            self._missed = 0
            self._depth = 1
            timeline.backwards += 1
            if not timeline.running:
                timeline.start(now)
            if not timeline.claimed:
                timeline.enter(layout.BACKWARD, now)
            if timeline.weighs:
                timeline.weigh(now)
            return True
        except Exception as error:
            self.failed(error)
            return False

    def ended(self) -> None:
        """The call has returned, or raised."""
        self._depth = 0
        try:
            timeline = self.timeline
            now = timeline.clock()
            timeline.leave(now)
            if timeline.weighs:
                timeline.weigh(now)
        except Exception as error:
            self.failed(error)

    # within the pass

    def gradient(self, _parameter: Any) -> None:
        """A parameter that is among the first to get its gradient has got it: be told when the last one has."""
        if not self.live or self._queued or not self._depth or not self.distributed:
            return
        try:
            self._engine.queue_callback(self.computed)
            self._queued = True
        except Exception as error:
            self.failed(error)

    def computed(self) -> None:
        """All gradients are computed; what the reducers wait for comes next."""
        self._queued = False
        if not self.live:
            return
        try:
            timeline = self.timeline
            now = timeline.clock()
            if timeline.phase != layout.BACKWARD:
                return
            if self.distributed:
                if not self._depth:
                    self._engine.queue_callback(self.reduced)
                self._loaders.own_work_done()
                timeline.enter(layout.COMM, now)
            else:
                timeline.leave(now)
            if timeline.weighs:
                timeline.weigh(now)
        except Exception as error:
            self.failed(error)

    # trainers that go around the call

    def forward_ended(self, output: Any) -> None:
        """A root's forward with gradients has ended: a backward pass may follow."""
        self.awaited = True
        if self._by_graph:
            self._queued = False
            for node in self._nodes(output):
                node.register_prehook(self._enters)

    def not_seen(self) -> None:
        """A step has ended whose backward pass was not seen: after a few of them graphs are watched."""
        self._missed += 1
        if self._missed == MISSED_STEPS and not compiles_backward():
            self._by_graph = True

    def enters(self, _gradients: Any) -> None:
        """A backward pass that nobody has announced reaches the root's output."""
        if not self.live or self._depth or self._queued:
            return
        try:
            timeline = self.timeline
            now = timeline.clock()
            self._engine.queue_callback(self.computed)
            self._queued = True
            self.awaited = False
            timeline.backwards += 1
            if not timeline.claimed:
                timeline.enter(layout.BACKWARD, now)
            if timeline.weighs:
                timeline.weigh(now)
        except Exception as error:
            self.failed(error)

    def reduced(self) -> None:
        """The reducers are done."""
        if not self.live:
            return
        try:
            timeline = self.timeline
            if timeline.phase == layout.COMM:
                timeline.leave(timeline.clock())
        except Exception as error:
            self.failed(error)

    def _nodes(self, output: Any) -> list[Any]:
        """The graph nodes of the first few tensors in an output: of sequences, mappings (the loss first), data classes."""
        found: list[Any] = []
        waiting = [(output, 0)]
        for _ in range(_ITEMS_LIMIT):
            if not waiting or len(found) == NODES_LIMIT:
                break
            value, depth = waiting.pop(0)
            if isinstance(value, self._tensor):
                node = value.grad_fn
                if node is not None:
                    found.append(node)
            elif depth <= _DEPTH_LIMIT:
                waiting.extend((part, depth + 1) for part in _parts(value))
        return found


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        loss = value.get("loss")
        return [loss] if loss is not None else list(value.values())[:_ITEMS_LIMIT]
    if isinstance(value, (tuple, list)):
        return list(value[:_ITEMS_LIMIT])
    return list(getattr(value, "__dict__", {}).values())[:_ITEMS_LIMIT]
