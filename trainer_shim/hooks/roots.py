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
    """What the hooks on the roots of a session share (`instances` has the hooks themselves)."""

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
        self.is_grad_enabled: Callable[[], bool] = torch.is_grad_enabled
        self.loaders = loaders
        self.evaluation = evaluation
        self.backward = backward
        self.inside = 0
        """The root whose forward runs, as its id; 0 for none."""
        self.charged = False
        """That forward is one of a training step."""

    def is_nested(self, key: int) -> bool:
        """Whether the forward of `key` lies within that of another root: of roots in one another the outermost counts.
        A forward that raised has no end, and by now the phase has moved on.
        """
        return self.inside not in (0, key) and self.timeline.phase in (layout.FORWARD, layout.COMM)

    def begins_without_gradients(self, now: int) -> None:
        """A forward begins that cannot be trained on."""
        self.loaders.was_evaluation()
        self.charged = False
        if not self.timeline.claimed:
            self.timeline.enter(layout.EVALUATION, now)

    def synchronised(self) -> None:
        """What a wrapper does before the model's own forward is done: it waited for its peers until here."""
        try:
            timeline = self.timeline
            if timeline.phase == layout.COMM and get_ident() == timeline.thread:
                timeline.enter(layout.FORWARD, timeline.clock())
        except Exception as error:
            self.failed(error)
