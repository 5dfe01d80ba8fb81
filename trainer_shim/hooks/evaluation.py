"""Which work is evaluation: told by the mode of the model, which costs one attribute to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Optional

from .. import layout
from .hook import Hook

if TYPE_CHECKING:
    from ..timeline import Timeline


class EvaluationWatch(Hook):
    """Follows the root module into evaluation mode and out of it.

    From the first batch or forward in evaluation mode until training goes on, all time is evaluation. Some trainers
    keep their model in evaluation mode and train it all the same (frozen batch norms): an optimizer step in that mode
    shows it, and from then on the mode is not believed.
    """

    name = "evaluation"

    def __init__(self, timeline: Timeline) -> None:
        super().__init__(timeline)
        self.root: Callable[[], Optional[Any]] = lambda: None
        self.entered = False
        """The model is in an evaluation that we have noticed."""
        self._believed = True

    def look(self, now: int) -> None:
        """A batch is about to be taken: see which mode the model is in."""
        module = self.root()
        if module is None:
            return
        if module.training:
            if self.entered:
                self._leave(now)
        elif self._believed and not self.entered and self.timeline.base == layout.OTHER:
            self.entered = True
            self.timeline.set_base(layout.EVALUATION, now)

    def trains(self, now: int) -> None:
        """An optimizer steps: the model trains, whatever its mode says."""
        if self.entered:
            module = self.root()
            self._believed = module is None or module.training
            self._leave(now)

    def forward(self, module: Any, now: int) -> None:
        """A forward with gradients begins."""
        if self.entered and module.training:
            self._leave(now)

    def _leave(self, now: int) -> None:
        self.entered = False
        if self.timeline.base == layout.EVALUATION:
            self.timeline.set_base(layout.OTHER, now)
