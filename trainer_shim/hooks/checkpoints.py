"""Checkpoints: the calls that write them are a phase of their own."""

from __future__ import annotations

from _thread import get_ident
from typing import Optional

from .. import layout
from .hook import Hook


class CheckpointHook(Hook):
    """Charges `torch.save` and `torch.distributed.checkpoint` to the checkpoint phase, the outermost call alone."""

    name = "checkpoint"

    def begins(self) -> Optional[int]:
        """A checkpoint is about to be written; gives what `ended` needs, None when the call is not to be charged."""
        try:
            timeline = self.timeline
            if not self.live or get_ident() != timeline.thread or timeline.base == layout.CHECKPOINT:
                return None
            return timeline.set_base(layout.CHECKPOINT, timeline.clock())
        except Exception as error:
            self.failed(error)
            return None

    def ended(self, before: int) -> None:
        """The checkpoint is written, or failed."""
        try:
            timeline = self.timeline
            now = timeline.clock()
            timeline.set_base(before, now)
            timeline.flush_if_old(now)
        except Exception as error:
            self.failed(error)
