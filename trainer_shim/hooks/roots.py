"""The forward passes of root modules, the outermost modules that the trainer calls."""

from __future__ import annotations

from _thread import get_ident
from typing import TYPE_CHECKING, Any, Callable

from .. import layout
from .hook import Hook

if TYPE_CHECKING:
    from ..timeline import Timeline
    from .backward import BackwardHook
    from .evaluation import EvaluationWatch
    from .loaders import LoaderHook


class RootHook(Hook):
    """What happens around a forward of a root; shared by all roots of a session."""

    name = "forward"

    def __init__(
        self,
        timeline: Timeline,
        torch: Any,
        is_compiling: Callable[[], bool],
        loaders: LoaderHook,
        evaluation: EvaluationWatch,
        backward: BackwardHook,
    ) -> None:
        super().__init__(timeline)
        self.is_compiling = is_compiling
        self._is_grad_enabled = torch.is_grad_enabled
        self._loaders = loaders
        self._evaluation = evaluation
        self.backward = backward
        self._inside = 0
        """The root whose forward runs, as its id; 0 for none."""
        self._charged = False

    def before(self, module: Any, first_phase: int) -> None:
        """The forward of a root begins. Of roots in one another the outermost counts."""
        try:
            timeline = self.timeline
            if get_ident() != timeline.thread:
                return
            key = id(module)
            if self._inside and self._inside != key and timeline.phase in (layout.FORWARD, layout.COMM):
                return
            now = timeline.clock()
            self._inside = key
            if self._is_grad_enabled():
                self._evaluation.forward(module, now)
                self._charged = True
                if not timeline.claimed:
                    timeline.enter(first_phase, now)
            else:
                self._loaders.was_evaluation()
                self._charged = False
                if not timeline.claimed:
                    timeline.enter(layout.EVALUATION, now)
            timeline.overhead += timeline.clock() - now
        except Exception as error:
            self.failed(error)

    def synchronised(self) -> None:
        """What a wrapper does before the model's own forward is done: it waited for its peers until here."""
        try:
            timeline = self.timeline
            if timeline.phase == layout.COMM and get_ident() == timeline.thread:
                timeline.enter(layout.FORWARD, timeline.clock())
        except Exception as error:
            self.failed(error)

    def after(self, module: Any, output: Any) -> None:
        """The forward of a root has ended."""
        try:
            if self._inside != id(module):
                return
            timeline = self.timeline
            if get_ident() != timeline.thread:
                return
            now = timeline.clock()
            self._inside = 0
            if self._charged:
                self.backward.forward_ended(output)
            timeline.leave(now)
            timeline.overhead += timeline.clock() - now
        except Exception as error:
            self.failed(error)
