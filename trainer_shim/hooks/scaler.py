"""The gradient scaler: which steps it skipped, and its scale, without ever asking the GPU."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Callable, Optional

from .hook import Hook

if TYPE_CHECKING:
    from ..timeline import Timeline
    from .steps import StepHook


class ScalerHook(Hook):
    """Sees `GradScaler.update`, which trainers call once a step.

    No optimizer call since the last update means that the scaler found infinite gradients and left the call out.
    A scale on a GPU cannot be read without waiting for the GPU, so it is followed by the scaler's own arithmetic
    (backoff after a skip, growth after an interval of good steps). Where that cannot be sure (fused optimizers skip on
    the GPU itself, several optimizers share one verdict) the scale stays untold.
    """

    name = "scaler"

    def __init__(self, timeline: Timeline, steps: StepHook) -> None:
        super().__init__(timeline)
        self._steps = steps
        self._calls = 0
        self._scaler: Callable[[], Optional[Any]] = lambda: None
        self._first_scale = 0.0
        self._scale: Optional[float] = None
        self._good_steps = 0

    def updated(self, scaler: Any, new_scale: Any) -> None:
        """The scaler's `update` has ended."""
        try:
            if not getattr(scaler, "_enabled", False):
                return
            timeline = self.timeline
            now = timeline.clock()
            if timeline.is_foreign_step(now):
                return
            calls = self._steps.calls - self._calls
            self._calls = self._steps.calls
            if calls == 0 and timeline.running and not timeline.explicit:
                timeline.end_step(now, skipped=True)
            scale = self._read(scaler) if _on_cpu(scaler) else self._follow(scaler, new_scale, calls)
            if scale is not None:
                timeline.tell_scale(scale)
            timeline.overhead += timeline.clock() - now
        except Exception as error:
            self.failed(error)

    @staticmethod
    def _read(scaler: Any) -> float:
        return float(scaler._scale.item())

    def _follow(self, scaler: Any, new_scale: Any, calls: int) -> Optional[float]:
        first = float(scaler._init_scale)
        if self._scaler() is not scaler or first != self._first_scale:  # load_state_dict sets the first scale anew
            self._scaler = weakref.ref(scaler)
            self._first_scale = first
            self._scale = first
            self._good_steps = int(getattr(scaler, "_init_growth_tracker", 0))
        if self._scale is None:
            return None
        if new_scale is not None:
            self._scale = new_scale if isinstance(new_scale, float) else None
        elif calls == 0:
            self._scale *= scaler._backoff_factor
            self._good_steps = 0
        elif calls > 1 or self._steps.any_is_fused:
            self._scale = None
        else:
            self._good_steps += 1
            if self._good_steps == scaler._growth_interval:
                self._scale *= scaler._growth_factor
                self._good_steps = 0
        return self._scale


def _on_cpu(scaler: Any) -> bool:
    scale = getattr(scaler, "_scale", None)
    return scale is not None and scale.device.type == "cpu"
