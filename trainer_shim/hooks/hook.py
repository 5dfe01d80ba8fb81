"""What every hook has: it never raises, counts what it catches, and gives up after three errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..environment import redact

if TYPE_CHECKING:
    from ..timeline import Timeline

ERRORS_LIMIT = 3


class Hook:
    """One hook of one session. `live` turns False when it has failed too often, after a fork, and on detach."""

    name = "hook"

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.live = True
        self._errors = 0

    def failed(self, error: Exception) -> None:
        """Count an error of this hook; the third one switches it off and leaves a note."""
        self._errors += 1
        timeline = self.timeline
        timeline.errors += 1
        if self._errors < ERRORS_LIMIT:
            return
        self.live = False
        try:
            message = redact(str(error))
            timeline.writer.note("hook_off", {"hook": self.name, "type": type(error).__name__, "message": message})
        except Exception:
            pass  # the record is gone: there is nobody left to tell
