"""An exception that leaves the trainer: noted on its way to whoever handles it."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional, Union

from .. import layout
from ..environment import redact
from .hook import Hook

if TYPE_CHECKING:
    from ..timeline import Timeline

FRAMES = 4


class CrashHook(Hook):
    """Stands before `sys.excepthook` and passes everything on. Whoever replaces it later replaces us, too."""

    name = "crash"

    def __init__(self, timeline: Timeline) -> None:
        super().__init__(timeline)
        self._previous = sys.excepthook
        sys.excepthook = self._excepthook

    def _excepthook(self, kind: type[BaseException], error: BaseException, traceback: Optional[TracebackType]) -> Any:
        if self.live:
            try:
                self._note(kind, error, traceback)
            except Exception as own:
                self.failed(own)
        return self._previous(kind, error, traceback)

    def _note(self, kind: type[BaseException], error: BaseException, traceback: Optional[TracebackType]) -> None:
        timeline = self.timeline
        now = timeline.clock()
        places = []
        while traceback is not None:
            code = traceback.tb_frame.f_code
            places.append(f"{code.co_filename}:{traceback.tb_lineno} in {code.co_name}")
            traceback = traceback.tb_next
        fields: dict[str, Union[str, int]] = {
            "type": kind.__name__,
            "message": redact(str(error)),
            "where": " < ".join(reversed(places[-FRAMES:])),
            "phase": layout.PHASES[timeline.phase],
            "step": timeline.steps + 1,
        }
        timeline.writer.note("exception", fields, now)
        timeline.stage = layout.FAILED
        timeline.write_state(now)

    def end(self) -> None:
        """Take the hook away, if nobody has put another one before it."""
        self.live = False
        if sys.excepthook == self._excepthook:
            sys.excepthook = self._previous
