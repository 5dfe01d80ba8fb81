"""Steps: the optimizer's pre and post hooks, which all optimizers share."""

from __future__ import annotations

import sys
from _thread import get_ident
from types import FrameType
from typing import TYPE_CHECKING, Any, Optional

from .. import layout
from .hook import Hook

if TYPE_CHECKING:
    from ..timeline import Timeline
    from .backward import BackwardHook
    from .discovery import RootDiscovery
    from .evaluation import EvaluationWatch
    from .loaders import LoaderHook


class StepHook(Hook):
    """Charges optimizer calls, and ends a step with the outermost of them.

    A wrapper's call holds the call of the optimizer inside: only the outermost counts. A call that raised has no end,
    and is not taken for one that is still under way.
    """

    name = "step"

    def __init__(
        self,
        timeline: Timeline,
        loaders: LoaderHook,
        evaluation: EvaluationWatch,
        discovery: RootDiscovery,
        backward: BackwardHook,
    ) -> None:
        super().__init__(timeline)
        self._loaders = loaders
        self._evaluation = evaluation
        self._discovery = discovery
        self._backward = backward
        self._known: set[int] = set()
        self._outer: Optional[int] = None
        self.calls = 0
        """Optimizer calls that have ended."""
        self.any_is_fused = False
        """One of them decides on the GPU itself whether it steps (fused optimizers under a gradient scaler)."""

    def before(self, optimizer: Any) -> None:
        """An optimizer call begins."""
        try:
            timeline = self.timeline
            now = timeline.clock()
            if get_ident() != timeline.thread and timeline.is_foreign_step(now):
                return
            outer = self._outer
            if outer is not None and outer != id(optimizer) and _is_nested():
                return
            self._outer = id(optimizer)
            if not timeline.running:
                timeline.start(now)
            if self._loaders.last is not None:
                self._loaders.was_training()
            if self._evaluation.entered:
                self._evaluation.trains(now)
            timeline.enter(layout.OPTIMIZER, now)
            if timeline.weighs:
                timeline.weigh(now)
        except Exception as error:
            self.failed(error)

    def after(self, optimizer: Any) -> None:
        """An optimizer call has ended."""
        try:
            key = id(optimizer)
            if key != self._outer:
                return
            timeline = self.timeline
            now = timeline.clock()
            if get_ident() != timeline.thread:
                return
            self._outer = None
            self.calls += 1
            timeline.optimizer_ended(key, now)
            if key not in self._known:
                self._known.add(key)
                self.any_is_fused |= bool(getattr(optimizer, "_step_supports_amp_scaling", False))
                self._discovery.optimizer_found(optimizer)
            if self._discovery.waits:
                self._discovery.step_ended()
            if self._backward.awaited:
                self._backward.not_seen()
            if timeline.weighs:
                timeline.weigh(now)
        except Exception as error:
            self.failed(error)


def _is_nested() -> bool:
    """Whether the optimizer call that runs our pre-hook lies within another, by the frames of torch's own wrapper.

    Called from `before`, which the wiring's function calls, which the wrapper calls.
    """
    frame: Optional[FrameType] = sys._getframe(3)
    wrapper = frame.f_code if frame is not None else None
    while frame is not None:
        frame = frame.f_back
        if frame is not None and frame.f_code is wrapper:
            return True
    return False
